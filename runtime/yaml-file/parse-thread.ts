/** The thread that parses files of operators. */

import { serveWorker } from '#lib/worker-rpc.ts'
import { parseYaml } from './parse-yaml.ts'

const handlers = { parse: parseYaml }

export type ParsingThread = typeof handlers

serveWorker(handlers)
