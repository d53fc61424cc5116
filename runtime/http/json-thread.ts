/** Thread: body bytes in, the parsed value out. */

import { serveWorker } from '#lib/worker-rpc.ts'
import { parseJson } from './json-body.ts'

serveWorker({
  parse: (bytes: Uint8Array) => parseJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)),
})
