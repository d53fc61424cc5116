/**
 * What a node is, the file that names all of them, and how the dispatcher talks to one, whatever its protocol is. All faults of
 * the file are reported, not just the first.
 */

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
import type { Content, RunEvent } from '../state/types.ts'

/** An entry of the nodes file. */
export interface RunNode {
  /** Lower case: the path of the run gateway and the app's name at the node, unless `app` says otherwise. */
  slug: string
  /** In capitals; what `@name` and the bare word mean. */
  codename: string
  role: string
  /** What it can do, in words. */
  skills: readonly string[]
  url: string
  /** The ADK app's name at the node: case-sensitive there. */
  app: string
  /** With the values of ${ENV} put in; never logged. */
  headers: Readonly<Record<string, string>>
  /** Longest time for one run at this node, in ms: at most 300,000, which is the default. */
  timeoutMs: number
  /** Runs at once. */
  concurrency: number
}

/** The nodes of the file that is valid now. */
export interface NodeSet extends FileValues {
  /** In the file's order. */
  readonly nodes: readonly RunNode[]
  bySlug(slug: string): RunNode | undefined
  /** Any case. */
  byCodename(codename: string): RunNode | undefined
  /** Values of ${ENV} of 8 characters or more, for masking. */
  readonly secrets: readonly string[]
}

export interface NodeCall {
  node: RunNode
  runId: string
  userId: string
  sessionId: string
  newMessage: Content
  streaming: boolean
  stateDelta?: Record<string, unknown>
  customMetadata?: Record<string, unknown>
  /** Aborting closes the connection, which is how an ADK node is canceled. */
  signal: AbortSignal
}

/** A session at a node. */
export type NodeSession = Pick<NodeCall, 'node' | 'userId' | 'sessionId'>

/** How the dispatcher talks to nodes. */
export interface NodeCalls {
  /**
   * Events of one run at a node, in order, as clients see them (see RunEvent). Iterating throws a NodeFault, or the
   * signal's reason. An error event of the agent is yielded like any other; the caller decides that the run failed.
   */
  callNode(call: NodeCall): AsyncIterable<RunEvent>
  /** Begins to make the session of a run at its node, which `callNode` then waits for. */
  prepareSession(of: NodeSession): void
  /**
   * Resolves within two seconds when the node serves its app; else throws NodeFault `unavailable`, or the signal's reason.
   * Nodes of one server that are asked at the same time share its answer, and the signal of the first.
   */
  probeNode(node: RunNode, signal: AbortSignal): Promise<void>
}

/**
 * - `unavailable`: nothing of the run began (refused connection, 404 of the app, no session): another attempt is safe;
 * - `lost`: the connection ended in the middle;
 * - `agent_error`: the node says that the agent failed.
 */
type NodeFaultKind = 'unavailable' | 'lost' | 'agent_error'

export class NodeFault extends Error {
  readonly kind: NodeFaultKind
  constructor(kind: NodeFaultKind, message: string) {
    super(message)
    this.name = 'NodeFault'
    this.kind = kind
  }
}

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

const skillsMax = 32
const skillLengthMax = 100

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
    skills: Type.Optional(
      Type.Array(text({ maxLength: skillLengthMax }), {
        maxItems: skillsMax,
        fault: `must be a list of at most ${skillsMax} texts of 1 to ${skillLengthMax} characters`,
      }),
    ),
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

function nodeOf(slug: string, given: Static<typeof nodeSchema>): RunNode {
  const { codename = codenameOf(slug), role = '', skills = [], app = slug, headers, concurrency } = given
  const url = new URL(given.url).href.replace(/\/+$/, '')
  return { slug, codename, role, skills, url, app, headers, timeoutMs: given.timeout_ms, concurrency }
}

/** A message is searched for the names of all. */
const nodesMax = 200
/** They are paths of the run gateway. */
const slugPattern = /^[a-z0-9][a-z0-9_-]{0,31}$/
const takenSlugs: ReadonlySet<string> = new Set(['runs', 'dispatch', 'dispatches'])

export type WatchedNodes = WatchedYamlFile<NodeSet>

type NodesFile = { nodes: Record<string, Static<typeof nodeSchema>> | null }

export const nodesFile = yamlFile<NodesFile, NodeSet>({
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
export function loadNodes(env: Environment): NodeSet {
  const { path, optional } = nodesFileOf(env)
  return nodesFile.load(path, env, { optional })
}

/** As `watchYamlFile`, the file that the environment names. */
export function watchNodes({
  env,
  ...options
}: Omit<WatchYamlFileOptions, 'path' | 'optional'>): WatchedNodes {
  return nodesFile.watch({ ...nodesFileOf(env), env, ...options })
}

export function nodeSetOf(nodes: readonly RunNode[], secrets: readonly string[] = [], version = ''): NodeSet {
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
    const codename = given.codename ?? codenameOf(slug)
    if (given.codename === undefined && !codenamePattern.test(codenameOf(slug)))
      fault(`needs ${codenameForm}`, slug)
    if (codenames.has(codename)) fault('has the codename of another node', slug)
    codenames.add(codename)
  }
}
