// Is the model in this folder still the same network here?
//
//     g++ -std=c++17 -I$ONNXRUNTIME/include verify.cpp -L$ONNXRUNTIME/lib -lonnxruntime -o verify
//     ./verify [FOLDER]
//
// runs it on the inputs in vectors.bin, on the CPU, and compares the outputs with those of torch. For another execution
// provider, append it to the session's options in main().
// Exit code 0: the same. 1: another one. 2: it can't be run.

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

struct Tensor {
    std::string name, dtype;
    std::vector<int64_t> shape;
    std::vector<char> bytes;
    double bar = 0;
};

struct Dtype {
    ONNXTensorElementDataType type;
    size_t size;
};

static const std::map<std::string, Dtype> DTYPES = {
    {"float16", {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, 2}}, {"float32", {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, 4}},
    {"float64", {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, 8}},  {"int8", {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, 1}},
    {"int16", {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, 2}},     {"int32", {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, 4}},
    {"int64", {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, 8}},     {"uint8", {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, 1}},
    {"bool", {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, 1}},
};

[[noreturn]] static void stop(const std::string& message) {
    std::cerr << "error: " << message << "\n";
    std::exit(2);
}

static std::vector<char> read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) stop("can't read " + path);
    return {std::istreambuf_iterator<char>(file), {}};
}

static std::string unquote(const std::string& text) {
    std::string result;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size()) {
            result += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
            i += 2;
        } else {
            result += text[i];
        }
    }
    return result;
}

template <class Number>
static double number_at(const char* data, size_t i) {
    Number value;
    std::memcpy(&value, data + i * sizeof(Number), sizeof(Number));
    return static_cast<double>(value);
}

static double half_at(const char* data, size_t i) {
    uint16_t bits;
    std::memcpy(&bits, data + i * 2, 2);
    const double sign = bits >> 15 ? -1 : 1;
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent == 31) return fraction ? std::nan("") : sign * INFINITY;
    return sign * (exponent ? std::ldexp(1 + fraction / 1024.0, exponent - 15) : std::ldexp(fraction / 1024.0, -14));
}

static double at(const std::string& dtype, const char* data, size_t i) {
    if (dtype == "float16") return half_at(data, i);
    if (dtype == "float32") return number_at<float>(data, i);
    if (dtype == "float64") return number_at<double>(data, i);
    if (dtype == "int8") return number_at<int8_t>(data, i);
    if (dtype == "int16") return number_at<int16_t>(data, i);
    if (dtype == "int32") return number_at<int32_t>(data, i);
    if (dtype == "int64") return number_at<int64_t>(data, i);
    return number_at<uint8_t>(data, i);
}

static Tensor read_tensor(std::istringstream& words, const std::vector<char>& data, bool is_output) {
    Tensor tensor;
    std::string name, shape;
    size_t start = 0, size = 0;
    words >> name >> tensor.dtype >> shape >> start >> size;
    if (is_output) words >> tensor.bar;
    if (!words || !DTYPES.count(tensor.dtype) || start > data.size() || size > data.size() - start)
        stop("vectors.txt is damaged");
    tensor.name = unquote(name);
    size_t count = 1;
    if (shape != "-") {
        std::istringstream sizes(shape);
        for (std::string one; std::getline(sizes, one, 'x');) {
            tensor.shape.push_back(std::stoll(one));
            count *= static_cast<size_t>(tensor.shape.back());
        }
    }
    if (count * DTYPES.at(tensor.dtype).size != size) stop("vectors.txt is damaged");
    tensor.bytes.assign(data.begin() + start, data.begin() + start + size);
    return tensor;
}

static bool compare(const Tensor& expected, const Ort::Value& found) {
    const auto info = found.GetTensorTypeAndShapeInfo();
    if (info.GetShape() != expected.shape || info.GetElementType() != DTYPES.at(expected.dtype).type) {
        std::cout << "  " << expected.name << ": another shape or dtype\n";
        return false;
    }
    const char* data = found.GetTensorData<char>();
    double worst = 0;
    for (size_t i = 0; i < info.GetElementCount(); ++i) {
        const double a = at(expected.dtype, data, i), b = at(expected.dtype, expected.bytes.data(), i);
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        const double off = std::fabs(a - b);
        worst = std::max(worst, std::isnan(off) ? INFINITY : off);
    }
    const bool same = worst <= expected.bar;
    std::cout << "  " << expected.name << ": error " << worst << ", up to " << expected.bar << " passes"
              << (same ? "" : "  <-- FAILS") << "\n";
    return same;
}

int main(int count, char** arguments) {
    const std::string folder = count > 1 ? arguments[1] : ".";
    const std::vector<char> data = read_file(folder + "/vectors.bin");
    std::vector<Tensor> inputs, outputs;
    std::ifstream text(folder + "/vectors.txt");
    for (std::string line; std::getline(text, line);) {
        std::istringstream words(line);
        std::string kind;
        words >> kind;
        if (kind == "input") inputs.push_back(read_tensor(words, data, false));
        if (kind == "output") outputs.push_back(read_tensor(words, data, true));
    }
    if (outputs.empty()) stop("vectors.txt is missing or damaged");
    try {
        Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "verify");
        Ort::SessionOptions options;
        const std::string path = folder + "/model.onnx";
        Ort::Session session(env, std::basic_string<ORTCHAR_T>(path.begin(), path.end()).c_str(), options);
        const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeCPU);
        std::vector<Ort::Value> values;
        std::vector<const char*> input_names, output_names;
        for (Tensor& one : inputs) {
            values.push_back(Ort::Value::CreateTensor(memory, one.bytes.data(), one.bytes.size(), one.shape.data(),
                                                      one.shape.size(), DTYPES.at(one.dtype).type));
            input_names.push_back(one.name.c_str());
        }
        for (const Tensor& one : outputs) output_names.push_back(one.name.c_str());
        const auto found = session.Run(Ort::RunOptions{nullptr}, input_names.data(), values.data(), values.size(),
                                       output_names.data(), output_names.size());
        std::cout << "onnxruntime " << OrtGetApiBase()->GetVersionString() << ", CPU\n";
        bool same = true;
        for (size_t i = 0; i < outputs.size(); ++i) same = compare(outputs[i], found[i]) && same;
        std::cout << (same ? "the same network" : "ANOTHER network") << "\n";
        return same ? 0 : 1;
    } catch (const Ort::Exception& error) {
        stop(std::string("onnxruntime can't run the model: ") + error.what());
    }
}
