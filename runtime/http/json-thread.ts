/** The thread that parses big JSON bodies, so that they do not hold up the event loop. */

import { hash } from 'node:crypto'
import { serveWorker } from '#lib/worker-rpc.ts'
import { joinBlocks } from './receive-body.ts'
import { parseJson } from './validation.ts'

serveWorker({
  parse(blocks: Uint8Array[], hashed = false) {
    const body = joinBlocks(blocks)
    return { value: parseJson(body), hash: hashed ? hash('sha256', body, 'buffer') : null }
  },
})
