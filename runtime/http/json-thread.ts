/** The thread that parses big JSON bodies, so that they do not hold up the event loop. */

import { hash } from 'node:crypto'
import { serveWorker } from '#lib/worker-rpc.ts'
import { parseJson } from './validation.ts'

serveWorker({
  parse(bytes: Uint8Array, hashed = false) {
    const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    return { value: parseJson(body), hash: hashed ? hash('sha256', body, 'buffer') : null }
  },
})
