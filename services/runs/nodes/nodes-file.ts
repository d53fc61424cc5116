/** The nodes file: which one it is, its form, and how it is loaded and watched. All faults are reported, not just the first. */

import { type Static, Type } from 'typebox'
import { type Environment, loadConfig } from '#lib/config.ts'
import type { CheckContext } from '#runtime/yaml-file/check.ts'
import { connectionHeaders, entriesFile, entryFault, headers, text, url } from '#runtime/yaml-file/fields.ts'
import {
  type FileValues,
  type NamedFile,
  namedFile,
  type WatchedYamlFile,
  type WatchYamlFileOptions,
  yamlFile,
} from '#runtime/yaml-file/yaml-file.ts'
import type { NodeSet, RunNode } from './types.ts'

/** Settings of every service that reads the file. */
export const nodeSettings = Type.Object({
  RUN_NODES_FILE: Type.Optional(
    Type.String({
      description:
        'YAML file of the nodes that agents run at, read again when it changes; without it `nodes.yaml` in the data directory, which may be absent',
    }),
  ),
})

/** The file that the environment names, absolute; only the default one may be absent. */
export function nodesFileOf(env: Environment): NamedFile {
  return namedFile(loadConfig(nodeSettings, env).RUN_NODES_FILE, 'nodes.yaml', env)
}

/** What `@name` and the bare word in a message can be. */
const codenamePattern = /^[A-Z][A-Z0-9_]{1,31}$/
const codenameForm = 'a codename: 2 to 32 capitals, digits or underscores, beginning with a letter'

/** The platform sets these, or the connection needs them. */
const platformHeaders: ReadonlySet<string> = new Set([...connectionHeaders, 'accept'])

const nodeSchema = Type.Object(
  {
    codename: Type.Optional(
      text({
        check(given: string, { fault }) {
          if (!codenamePattern.test(given)) fault(`is not ${codenameForm}`)
        },
      }),
    ),
    role: Type.Optional(text({ maxLength: 200 })),
    url: url({
      example: 'http://host:port',
      schemes: 'must begin with http:// or https://',
      problemOf: ({ search, hash }) =>
        search === '' && hash === ''
          ? null
          : 'has a query (?) or fragment (#): write what comes before /run_sse',
    }),
    app: Type.Optional(text({ maxLength: 128 })),
    headers: headers(platformHeaders),
    timeout_ms: Type.Integer({ minimum: 1_000, maximum: 300_000, default: 300_000 }),
    concurrency: Type.Integer({ minimum: 1, maximum: 1_000, default: 16 }),
  },
  { additionalProperties: false, fault: entryFault },
)

/** What a node is called that names no codename itself. */
function codenameOf(slug: string): string {
  return slug.toUpperCase().replaceAll('-', '_')
}

/** The fault of a slug that gives no codename; null where it gives one. */
function missingCodename(slug: string): string | null {
  return codenamePattern.test(codenameOf(slug)) ? null : `needs ${codenameForm}`
}

function nodeOf(slug: string, given: Static<typeof nodeSchema>): RunNode {
  const { codename = codenameOf(slug), role = '', app = slug, headers, concurrency } = given
  const url = new URL(given.url).href.replace(/\/+$/, '')
  return { slug, codename, role, url, app, headers, timeoutMs: given.timeout_ms, concurrency }
}

/** A message is searched for the names of all. */
const nodesMax = 200
/** They are paths of the run gateway. */
const slugPattern = /^[a-z0-9][a-z0-9_-]{0,31}$/
const takenSlugs: ReadonlySet<string> = new Set(['runs', 'dispatch', 'dispatches'])

type FileNodes = NodeSet & FileValues
export type WatchedNodes = WatchedYamlFile<FileNodes>

interface NodesFile {
  nodes: Record<string, Static<typeof nodeSchema>> | null
}

const nodesFile = yamlFile<NodesFile, FileNodes>({
  name: 'nodes file',
  variable: 'RUN_NODES_FILE',
  logName: 'runs.nodes',
  schema: entriesFile(nodeSchema, { key: 'nodes', keys: 'slugs', max: nodesMax, check: checkNames }),
  read(file, secrets, version) {
    const nodes = Object.entries(file?.nodes ?? {}).map(([slug, given]) => nodeOf(slug, given))
    return nodeSetOf(nodes, secrets, version)
  },
  describe: ({ nodes }) => ({ nodes: nodes.map(({ slug }) => slug) }),
})

/** The nodes of the file that the environment names. Throws AppError `invalid_configuration` with the faults of the file. */
export function loadNodes(env: Environment): FileNodes {
  const { path, optional } = nodesFileOf(env)
  return nodesFile.load(path, env, { optional })
}

/** As `loadNodes`, of a text; `path` is named in the fault. */
export function parseNodes(text: string, env: Environment, path: string): FileNodes {
  return nodesFile.parse(text, env, path)
}

/** As `watchYamlFile`, the file that the environment names. */
export function watchNodes({
  env,
  ...options
}: Omit<WatchYamlFileOptions, 'path' | 'optional'>): WatchedNodes {
  return nodesFile.watch({ ...nodesFileOf(env), env, ...options })
}

export function nodeSetOf(
  nodes: readonly RunNode[],
  secrets: readonly string[] = [],
  version = '',
): FileNodes {
  const bySlug = new Map(nodes.map((node) => [node.slug, node]))
  const byCodename = new Map(nodes.map((node) => [node.codename, node]))
  return {
    nodes,
    secrets,
    version,
    bySlug: (slug) => bySlug.get(slug),
    byCodename: (codename) => byCodename.get(codename.toUpperCase()),
  }
}

function checkNames(nodes: Record<string, { codename?: unknown } | null>, { fault }: CheckContext): void {
  const codenames = new Set<unknown>()
  for (const [slug, given] of Object.entries(nodes)) {
    if (!slugPattern.test(slug)) {
      fault(
        'is not a slug: 1 to 32 lower-case letters, digits, underscores or hyphens, beginning with a letter or digit',
        slug,
      )
    } else if (takenSlugs.has(slug)) fault('is a path of the run gateway itself; use another slug', slug)
    if (given === null || typeof given !== 'object') continue
    const missing = given.codename === undefined ? missingCodename(slug) : null
    if (missing !== null) fault(missing, slug)
    const codename = given.codename ?? codenameOf(slug)
    if (codenames.has(codename)) fault('has the codename of another node', slug)
    codenames.add(codename)
  }
}
