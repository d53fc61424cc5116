/** The thread that parses big upserts. It hands over the vectors without copying them. */

import { detach } from '#lib/giving-way.ts'
import { serveWorker, Transferred } from '#lib/worker-rpc.ts'
import { joinBlocks } from '#runtime/http/receive-body.ts'
import { parseUpsert } from './upsert.ts'

/** Most bodies fit. The system takes longer to hand over new memory of this size than a copy takes. */
const room = new ArrayBuffer(4 * 1024 * 1024)

serveWorker({
  parse(blocks: Uint8Array[], hashed = false) {
    const body = joinBlocks(blocks, room)
    const parsed = parseUpsert(body, hashed)
    detach(body)
    return new Transferred(parsed, [parsed.vectors])
  },
})
