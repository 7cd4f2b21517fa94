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
import { compare, readVectors, run } from './vectors.mjs'

const folder = dirname(fileURLToPath(import.meta.url))
const read = (name) => new Uint8Array(readFileSync(join(folder, name)))
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')
const provider = process.argv[2] ?? 'cpu'
const library = provider === 'wasm' ? 'onnxruntime-web' : 'onnxruntime-node'

let same
try {
  const model = read('model.onnx')
  const text = new TextDecoder().decode(read('vectors.txt'))
  const { inputs, outputs } = await readVectors(text, read('vectors.bin'), model, sha256)
  const ort = await import(library)
  const found = await run(ort.default ?? ort, model, provider, inputs)
  console.log(`${library}, ${provider}`)
  same = compare(outputs, found, (line) => console.log(`  ${line}`))
} catch (error) {
  console.error(`error: the model can't be run: ${error.message ?? error}`)
  process.exit(2)
}
console.log(same ? 'the same network' : 'ANOTHER network')
process.exit(same ? 0 : 1)
