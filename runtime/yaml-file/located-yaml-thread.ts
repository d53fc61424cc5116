/** The thread that parses files of operators. */

import { serveWorker } from '#lib/worker-rpc.ts'
import { parseText } from './located-yaml.ts'

const handlers = { parse: parseText }

export type ParsingThread = typeof handlers

serveWorker(handlers)
