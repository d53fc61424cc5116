/** The nodes file: its form as a whole, and how it is loaded and watched. */

import type { Environment } from '#lib/config.ts'
import type { Located } from '#runtime/yaml-file/located-yaml.ts'
import { type FileReading, unknownKey } from '#runtime/yaml-file/reading.ts'
import {
  type FileValues,
  loadYamlFile,
  parseYamlFile,
  type WatchedYamlFile,
  type WatchYamlFileOptions,
  watchYamlFile,
  type YamlFileKind,
  type YamlFileOptions,
} from '#runtime/yaml-file/yaml-file.ts'
import { readNode } from './node-fields.ts'
import type { NodeSet, RunNode } from './types.ts'

/** A message is searched for all their names. */
const nodesMax = 200
/** They are paths of the run gateway. */
const slugPattern = /^[a-z0-9][a-z0-9_-]{0,31}$/
const takenSlugs: ReadonlySet<string> = new Set(['runs', 'dispatch', 'dispatches'])

export type FileNodes = NodeSet & FileValues
export type WatchedNodes = WatchedYamlFile<FileNodes>

const nodesFile: YamlFileKind<FileNodes> = {
  name: 'nodes file',
  variable: 'RUN_NODES_FILE',
  logName: 'runs.nodes',
  absent: () => nodeSetOf([], [], 'none'),
  read(root, reading, version) {
    const nodes = root ? readRoot(root, reading) : []
    return nodeSetOf(nodes, [...reading.secrets], version)
  },
  describe: ({ nodes }) => ({ nodes: nodes.map(({ slug }) => slug) }),
}

/** As `loadYamlFile`; an absent file that may be absent means no nodes. */
export function loadNodes(path: string, env: Environment, options: YamlFileOptions = {}): FileNodes {
  return loadYamlFile(nodesFile, path, env, options)
}

/** As `loadNodes`, of a text; `path` is named in the fault. */
export function parseNodes(text: string, env: Environment, path: string): FileNodes {
  return parseYamlFile(nodesFile, text, env, path)
}

/** As `watchYamlFile`. */
export function watchNodes(options: WatchYamlFileOptions): WatchedNodes {
  return watchYamlFile(nodesFile, options)
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

function readRoot(root: Located, reading: FileReading): RunNode[] {
  if (root.kind !== 'map') {
    reading.fault(root.place, 'the file must be a map with the one key nodes')
    return []
  }
  for (const entry of root.entries) {
    if (entry.name !== 'nodes') reading.fault(entry.place, unknownKey(entry.name, ['nodes']))
  }
  const given = root.entries.find((entry) => entry.name === 'nodes')
  if (!given) reading.fault(root.place, 'the key nodes is missing; write `nodes: {}` for none')
  else if (given.value.kind === 'map') return readNodes(given.value.entries, reading)
  else if (given.value.kind !== 'scalar' || given.value.value !== null) {
    reading.fault(given.place, 'must be a map of slugs to nodes')
  }
  return []
}

function readNodes(entries: Extract<Located, { kind: 'map' }>['entries'], reading: FileReading): RunNode[] {
  if (entries.length > nodesMax)
    reading.fault(entries[nodesMax]!.place, `there may be ${nodesMax} nodes at most`)
  const nodes: RunNode[] = []
  const codenames = new Set<string>()
  for (const { name: slug, place, value } of entries.slice(0, nodesMax)) {
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
