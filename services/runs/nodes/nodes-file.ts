/** The nodes file: which one it is, its form, and how it is loaded and watched. All faults are reported, not just the first. */

import { Type } from 'typebox'
import { type Environment, loadConfig } from '#lib/config.ts'
import { readEntries, readFields, readUrl, type UrlAsked } from '#runtime/yaml-file/entries.ts'
import { connectionHeaders, readHeaders } from '#runtime/yaml-file/headers.ts'
import type { Located, Place } from '#runtime/yaml-file/located-yaml.ts'
import { type NamedFile, namedFile } from '#runtime/yaml-file/named-file.ts'
import type { FileReading } from '#runtime/yaml-file/reading.ts'
import {
  type FileValues,
  loadYamlFile,
  parseYamlFile,
  type WatchedYamlFile,
  type WatchYamlFileOptions,
  watchYamlFile,
  type YamlFileKind,
} from '#runtime/yaml-file/yaml-file.ts'
import type { NodeSet, RunNode } from './types.ts'

/** Of every service that reads the file. */
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

/** A message is searched for the names of all. */
const entriesAsked = { key: 'nodes', keys: 'slugs', max: 200 }
/** They are paths of the run gateway. */
const slugPattern = /^[a-z0-9][a-z0-9_-]{0,31}$/
const takenSlugs: ReadonlySet<string> = new Set(['runs', 'dispatch', 'dispatches'])

type FileNodes = NodeSet & FileValues
export type WatchedNodes = WatchedYamlFile<FileNodes>

const nodesFile: YamlFileKind<FileNodes> = {
  name: 'nodes file',
  variable: 'RUN_NODES_FILE',
  logName: 'runs.nodes',
  absent: () => nodeSetOf([], [], 'none'),
  read(root, reading, version) {
    const nodes = root ? readNodes(root, reading) : []
    return nodeSetOf(nodes, [...reading.secrets], version)
  },
  describe: ({ nodes }) => ({ nodes: nodes.map(({ slug }) => slug) }),
}

/** The nodes of the file that the environment names. Throws AppError `invalid_configuration` with the faults of the file. */
export function loadNodes(env: Environment): FileNodes {
  const { path, optional } = nodesFileOf(env)
  return loadYamlFile(nodesFile, path, env, { optional })
}

/** As `loadNodes`, of a text; `path` is named in the fault. */
export function parseNodes(text: string, env: Environment, path: string): FileNodes {
  return parseYamlFile(nodesFile, text, env, path)
}

/** As `watchYamlFile`, the file that the environment names. */
export function watchNodes({
  env,
  ...options
}: Omit<WatchYamlFileOptions, 'path' | 'optional'>): WatchedNodes {
  return watchYamlFile(nodesFile, { ...nodesFileOf(env), env, ...options })
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

function readNodes(root: Located, reading: FileReading): RunNode[] {
  const nodes: RunNode[] = []
  const codenames = new Set<string>()
  for (const { name: slug, place, value } of readEntries(root, reading, entriesAsked)) {
    if (!slugPattern.test(slug)) {
      reading.fault(
        place,
        'is not a slug: 1 to 32 lower-case letters, digits, underscores or hyphens, beginning with a letter or digit',
      )
    } else if (takenSlugs.has(slug))
      reading.fault(place, 'is a path of the run gateway itself; use another slug')
    const node = readNode(slug, place, value, reading)
    if (!node) continue
    if (codenames.has(node.codename)) reading.fault(place, 'has the codename of another node')
    codenames.add(node.codename)
    nodes.push(node)
  }
  return nodes
}

const nodeDefaults = { timeoutMs: 300_000, concurrency: 16 } as const

const limits = {
  timeoutMs: { min: 1_000, max: 300_000, integer: true },
  concurrency: { min: 1, max: 1_000, integer: true },
  roleLengthMax: 200,
  appLengthMax: 128,
}

/** What `@name` and the bare word in a message can be. */
const codenamePattern = /^[A-Z][A-Z0-9_]{1,31}$/

const fieldNames = ['codename', 'role', 'url', 'app', 'headers', 'timeout_ms', 'concurrency'] as const

const urlAsked: UrlAsked = {
  example: 'http://host:port',
  schemes: 'must begin with http:// or https://',
  problemOf: ({ search, hash }) =>
    search === '' && hash === '' ? null : 'has a query (?) or fragment (#): write what comes before /run_sse',
}

/** The platform sets these, or the connection needs them. */
const platformHeaders: ReadonlySet<string> = new Set([...connectionHeaders, 'accept'])

/** Null when something of it is at fault. */
function readNode(slug: string, place: Place, value: Located, reading: FileReading): RunNode | null {
  const fields = readFields(value, reading, fieldNames)
  if (!fields) return null
  const { read } = fields
  const url = readUrl(fields.get('url'), place, reading, urlAsked)
  const codename = readCodename(fields.get('codename'), slug, place, reading)
  const node = {
    slug,
    codename,
    role: read('role', '', (given) => readText(given, limits.roleLengthMax, reading)),
    app: read<string>('app', slug, (given) => readText(given, limits.appLengthMax, reading)),
    headers: read('headers', {}, (given) => readHeaders(given, reading, platformHeaders)),
    timeoutMs: read<number>('timeout_ms', nodeDefaults.timeoutMs, (given) =>
      reading.number(given, limits.timeoutMs),
    ),
    concurrency: read<number>('concurrency', nodeDefaults.concurrency, (given) =>
      reading.number(given, limits.concurrency),
    ),
  }
  return url && { ...node, url: url.href.replace(/\/+$/, '') }
}

function readCodename(given: Located | undefined, slug: string, place: Place, reading: FileReading): string {
  const codename = given ? reading.plain(given) : slug.toUpperCase().replaceAll('-', '_')
  if (codename !== null && !codenamePattern.test(codename)) {
    reading.fault(
      given?.place ?? place,
      given
        ? 'is not a codename: 2 to 32 capitals, digits or underscores, beginning with a letter'
        : 'needs a codename: 2 to 32 capitals, digits or underscores, beginning with a letter',
    )
  }
  return codename ?? ''
}

function readText(given: Located, lengthMax: number, reading: FileReading): string | null {
  const text = reading.plain(given)
  if (text === null || text.length <= lengthMax) return text
  reading.fault(given.place, `must have at most ${lengthMax} characters`)
  return null
}
