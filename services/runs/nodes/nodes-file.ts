/** The nodes file: its form as a whole, and how it is loaded and watched. */

import type { Environment } from '#lib/config.ts'
import { readEntries } from '#runtime/yaml-file/entries.ts'
import type { Located } from '#runtime/yaml-file/located-yaml.ts'
import type { FileReading } from '#runtime/yaml-file/reading.ts'
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
