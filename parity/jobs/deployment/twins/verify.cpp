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
#include <set>
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

// SHA-256, FIPS 180-4.
static std::string sha256(const std::vector<char>& content) {
    static const uint32_t K[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::vector<char> padded = content;
    padded.push_back(static_cast<char>(0x80));
    while (padded.size() % 64 != 56) padded.push_back(0);
    for (int shift = 56; shift >= 0; shift -= 8)
        padded.push_back(static_cast<char>((static_cast<uint64_t>(content.size()) * 8) >> shift));
    const auto turn = [](uint32_t x, int n) { return (x >> n) | (x << (32 - n)); };
    for (size_t start = 0; start < padded.size(); start += 64) {
        uint32_t w[64], v[8];
        for (int i = 0; i < 16; ++i) {
            w[i] = 0;
            for (int k = 0; k < 4; ++k) w[i] = w[i] << 8 | static_cast<unsigned char>(padded[start + 4 * i + k]);
        }
        for (int i = 16; i < 64; ++i)
            w[i] = w[i - 16] + w[i - 7] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ (w[i - 15] >> 3)) +
                   (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ (w[i - 2] >> 10));
        std::copy(h, h + 8, v);
        for (int i = 0; i < 64; ++i) {
            const uint32_t one = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) +
                                 ((v[4] & v[5]) ^ (~v[4] & v[6])) + K[i] + w[i];
            const uint32_t two = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) +
                                 ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
            std::copy_backward(v, v + 7, v + 8);
            v[4] += one;
            v[0] = one + two;
        }
        for (int i = 0; i < 8; ++i) h[i] += v[i];
    }
    std::string digest;
    for (const uint32_t word : h)
        for (int shift = 28; shift >= 0; shift -= 4) digest += "0123456789abcdef"[word >> shift & 15];
    return digest;
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
    std::set<std::string> known;
    std::ifstream text(folder + "/vectors.txt");
    for (std::string line; std::getline(text, line);) {
        std::istringstream words(line);
        std::string kind;
        words >> kind;
        known.insert(kind);
        if (kind == "model" || kind == "data") {
            const std::string file = kind == "model" ? "model.onnx" : "vectors.bin";
            std::string digest;
            words >> digest;
            if (digest != sha256(kind == "data" ? data : read_file(folder + "/model.onnx")))
                stop(file + " isn't the file that this folder was written with");
        }
        if (kind == "input") inputs.push_back(read_tensor(words, data, false));
        if (kind == "output") outputs.push_back(read_tensor(words, data, true));
    }
    for (const std::string kind : {"data", "model", "output"})
        if (!known.count(kind)) stop("vectors.txt is missing or damaged: it has no line '" + kind + "'");
    for (const Tensor& one : outputs)
        if (!(one.bar >= 0 && one.bar < INFINITY)) stop("vectors.txt is damaged: an output may differ by any amount");
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
