// Is the model in this folder still the same network here?
//
//     npm install onnxruntime-node        (or onnxruntime-web, for WebAssembly)
//     node verify.mjs [PROVIDER]
//
// runs it on the inputs in vectors.bin and compares the outputs with those of torch. PROVIDER is an execution provider:
// cpu, cuda, ... of onnxruntime-node (cpu by default); wasm takes onnxruntime-web.
// Exit code 0: the same. 1: another one. 2: it can't be run.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = dirname(fileURLToPath(import.meta.url))
const ARRAYS = {
  float16: Uint16Array, float32: Float32Array, float64: Float64Array, int8: Int8Array, int16: Int16Array,
  int32: Int32Array, int64: BigInt64Array, uint8: Uint8Array, bool: Uint8Array,
}

function stop(message) {
  console.error(`error: ${message}`)
  process.exit(2)
}

function half(bits) { // a float16 as a number
  const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023
  if (exponent === 31) return fraction ? NaN : sign * Infinity
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024))
}

function numbers(array, dtype) {
  const plain = Array.from(array, Number)
  return dtype === 'float16' && array instanceof Uint16Array ? plain.map(half) : plain
}

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')
const model = readFileSync(join(folder, 'model.onnx')), data = readFileSync(join(folder, 'vectors.bin'))
const inputs = [], outputs = []
for (const line of readFileSync(join(folder, 'vectors.txt'), 'ascii').split('\n')) {
  const [kind, ...words] = line.split(' ')
  if (kind === 'model' && words[0] !== sha256(model)) stop("model.onnx isn't the file that this folder was written with")
  if (kind === 'data' && words[0] !== sha256(data)) stop("vectors.bin isn't the file that this folder was written with")
  if (kind !== 'input' && kind !== 'output') continue
  const [name, dtype, shape, start, size, bar] = words
  if (!Object.hasOwn(ARRAYS, dtype)) stop(`${dtype} isn't known`)
  const bytes = new Uint8Array(data.subarray(Number(start), Number(start) + Number(size))) // a copy, aligned
  const array = new ARRAYS[dtype](bytes.buffer)
  const dims = shape === '-' ? [] : shape.split('x').map(Number)
  const tensor = { name: decodeURIComponent(name), dtype, dims, array, bar: Number(bar) }
  ;(kind === 'input' ? inputs : outputs).push(tensor)
}

const provider = process.argv[2] ?? 'cpu'
let ort, found
try {
  ort = await import(provider === 'wasm' ? 'onnxruntime-web' : 'onnxruntime-node')
  ort = ort.default ?? ort
  const session = await ort.InferenceSession.create(model, { executionProviders: [provider] })
  const feeds = Object.fromEntries(inputs.map((t) => [t.name, new ort.Tensor(t.dtype, t.array, t.dims)]))
  found = await session.run(feeds)
} catch (error) {
  stop(`the model can't be run: ${error.message ?? error}`)
}

let same = true
console.log(`${provider === 'wasm' ? 'onnxruntime-web' : 'onnxruntime-node'}, ${provider}`)
for (const { name, dtype, dims, array, bar } of outputs) {
  const tensor = found[name]
  if (!tensor || String(tensor.dims) !== String(dims)) {
    console.log(`  ${name}: shape [${tensor?.dims}], needed [${dims}]`)
    same = false
    continue
  }
  const ours = numbers(tensor.data, dtype), theirs = numbers(array, dtype)
  let worst = 0
  for (let i = 0; i < theirs.length; i++) {
    if (Object.is(ours[i], theirs[i]) || ours[i] === theirs[i]) continue
    const off = Math.abs(ours[i] - theirs[i])
    worst = Math.max(worst, Number.isNaN(off) ? Infinity : off)
  }
  console.log(`  ${name}: error ${worst.toPrecision(3)}, up to ${bar.toPrecision(3)} passes${worst <= bar ? '' : '  <-- FAILS'}`)
  same &&= worst <= bar
}
console.log(same ? 'the same network' : 'ANOTHER network')
process.exit(same ? 0 : 1)
