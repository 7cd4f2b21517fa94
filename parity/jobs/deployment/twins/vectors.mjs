// Reads vectors.txt and vectors.bin, and compares outputs with them; for verify.mjs and verify.html.

const ARRAYS = {
  float16: Uint16Array, float32: Float32Array, float64: Float64Array, int8: Int8Array, int16: Int16Array,
  int32: Int32Array, int64: BigInt64Array, uint8: Uint8Array, bool: Uint8Array,
}

/** Return the inputs and outputs, each with name, dtype, dims, array and bar; throw an Error if a file is another one. */
export async function readVectors(text, data, model, sha256) {
  const inputs = [], outputs = [], known = new Set()
  for (const line of text.split('\n')) {
    const [kind, ...words] = line.split(' ')
    known.add(kind)
    if (kind === 'model' && words[0] !== (await sha256(model))) throw new Error("model.onnx isn't the file that this folder was written with")
    if (kind === 'data' && words[0] !== (await sha256(data))) throw new Error("vectors.bin isn't the file that this folder was written with")
    if (kind !== 'input' && kind !== 'output') continue
    const [name, dtype, shape, start, size, bar] = words
    if (!Object.hasOwn(ARRAYS, dtype)) throw new Error(`${dtype} isn't known`)
    const bytes = data.slice(Number(start), Number(start) + Number(size)) // a copy, aligned
    const dims = shape === '-' ? [] : shape.split('x').map(Number)
    const array = new ARRAYS[dtype](bytes.buffer)
    ;(kind === 'input' ? inputs : outputs).push({ name: decodeURIComponent(name), dtype, dims, array, bar: Number(bar) })
  }
  const missing = ['data', 'model', 'output'].find((kind) => !known.has(kind))
  if (missing) throw new Error(`vectors.txt is damaged: it has no line '${missing}'`)
  if (!outputs.every(({ bar }) => bar >= 0 && bar < Infinity)) throw new Error('vectors.txt is damaged: an output may differ by any amount')
  return { inputs, outputs }
}

/** Run the model in a session of onnxruntime-node or onnxruntime-web; return its outputs by name. */
export async function run(ort, model, provider, inputs) {
  const session = await ort.InferenceSession.create(model, { executionProviders: [provider] })
  return session.run(Object.fromEntries(inputs.map((t) => [t.name, new ort.Tensor(t.dtype, t.array, t.dims)])))
}

/** Call `say` with a line on each output; return whether all are within their bars. */
export function compare(outputs, found, say) {
  let same = true
  for (const { name, dtype, dims, array, bar } of outputs) {
    const tensor = found[name]
    if (!tensor || String(tensor.dims) !== String(dims)) {
      say(`${name}: shape [${tensor?.dims}], needed [${dims}]`)
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
    say(`${name}: error ${worst.toPrecision(3)}, up to ${bar.toPrecision(3)} passes${worst <= bar ? '' : '  <-- FAILS'}`)
    same &&= worst <= bar
  }
  return same
}

function numbers(array, dtype) {
  const plain = Array.from(array, Number)
  return dtype === 'float16' && array instanceof Uint16Array ? plain.map(half) : plain
}

function half(bits) { // a float16 as a number
  const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023
  if (exponent === 31) return fraction ? NaN : sign * Infinity
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024))
}
