/** The thread that parses big upserts. It hands over the vectors without copying them. */

import { detach } from '#lib/giving-way.ts'
import { serveWorker, Transferred } from '#lib/worker-rpc.ts'
import { parseUpsert } from './points.ts'

serveWorker({
  parse(bytes: Uint8Array, hashed = false) {
    const parsed = parseUpsert(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), hashed)
    detach(bytes)
    return new Transferred(parsed, [parsed.vectors])
  },
})
