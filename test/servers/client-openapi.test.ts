/** The TypeScript client is held to the API descriptions, in both directions: its calls, their fields, and the types of its answers. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Document, operationsOf, type Schema } from '#runtime/http/api/document.ts'
import { installOpenapiTools } from '../../scripts/servers/install.ts'
import { interfaceAt, type SentCall, sentByClient } from '../support/api-clients/client-calls.ts'
import {
  type DescribedFiles,
  openDescribedFiles,
  run,
  timeoutMs,
} from '../support/api-clients/described-files.ts'
import { projectFolder } from '../support/pages.ts'

let world: DescribedFiles
let sent: SentCall[]
beforeAll(async () => {
  ;[world, sent] = await Promise.all([openDescribedFiles(), sentByClient()])
}, timeoutMs)
afterAll(() => world?.close())

/** Agents call these of the main API; any other route goes by `main.request`. */
const ofMain = ['tradeAgentKey', 'signInWithCustomToken', 'getMe', 'getBrainState', 'readTopicRecords']
/** For clients of OpenAI, and for those who operate the relay. */
const notCalled = ['getChatModel', 'listChatModels', 'createChatCompletion', 'getRelayHealth']

interface Described {
  id: string
  service: string
  method: string
  path: string
  query: string[]
  body: string[]
}

function described(): Described[] {
  return world.interfaces.flatMap(({ name, document }) =>
    [...operationsOf(document)].map(([path, method, operation]) => {
      const { parameters = [], requestBody, operationId: id } = operation
      const query = parameters.filter((one) => one.in === 'query').map((one) => one.name)
      const schema = requestBody?.content['application/json']?.schema
      const body = Object.keys((resolved(document, schema ?? {}).properties as object | undefined) ?? {})
      return { id, service: name, method: method.toUpperCase(), path, query, body }
    }),
  )
}

function resolved(document: Document, schema: Schema): Schema {
  const { $ref } = schema
  if (typeof $ref !== 'string') return schema
  return resolved(document, document.components.schemas[$ref.split('/').at(-1)!] as Schema)
}

/** The operation that takes the call; a literal path goes before one with a parameter. */
function operationOf(call: SentCall, operations: readonly Described[]): Described | undefined {
  const taking = operations.filter(
    ({ service, method, path }) =>
      service === interfaceAt[call.port] &&
      method === call.method &&
      new RegExp(`^${path.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`).test(call.path),
  )
  return taking.sort((a, b) => a.path.split('{').length - b.path.split('{').length)[0]
}

test('every call is an operation of the platform, and every operation for agents is called', () => {
  const operations = described()
  const called = new Set<string>()
  for (const call of sent) {
    const operation = operationOf(call, operations)
    expect(operation, `${call.method} ${call.path}`).toBeDefined()
    called.add(`${operation!.service} ${operation!.id}`)
  }
  const offered = operations
    .filter(({ service, id }) => service !== 'main-api' || ofMain.includes(id))
    .filter(({ id }) => !notCalled.includes(id))
  expect([...called].sort()).toEqual(offered.map(({ service, id }) => `${service} ${id}`).sort())
})

/**
 * Fields for clients of OpenAI, a status that has one value where it is created, places that go as `Last-Event-ID`, and a key that
 * Google's identity provider asks for.
 */
const notCompared = new Set([
  ...['model', 'encoding_format', 'dimensions', 'user'].map((name) => `createEmbeddings body: lacks ${name}`),
  'createNote body: lacks status',
  'createGoal body: lacks status',
  'followRun query: lacks after',
  'followDispatch query: lacks after',
  'listSessionEvents query: lacks after',
  'readTopicRecords query: lacks wait',
  'signInWithCustomToken query: has key',
])

test('queries and bodies have the fields of the platform', () => {
  const operations = described()
  const fields = new Map<string, { query: Set<string>; body: Set<string> }>()
  for (const call of sent) {
    const id = operationOf(call, operations)?.id
    if (id === undefined) continue
    const seen = fields.get(id) ?? { query: new Set(), body: new Set() }
    for (const name of call.query) seen.query.add(name)
    for (const name of call.body) seen.body.add(name)
    fields.set(id, seen)
  }
  const faults = operations.flatMap(({ id, query, body }) => {
    const seen = fields.get(id)
    if (!seen) return []
    return [
      ...differences(id, 'query', new Set(query), seen.query),
      ...differences(id, 'body', new Set(body), seen.body),
    ]
  })
  expect(faults.filter((one) => !notCompared.has(one))).toEqual([])
})

function* differences(id: string, what: string, offered: Set<string>, seen: Set<string>): Generator<string> {
  for (const name of offered) if (!seen.has(name)) yield `${id} ${what}: lacks ${name}`
  for (const name of seen) if (!offered.has(name)) yield `${id} ${what}: has ${name}`
}

/** Each type of an answer: its operation, and where in the answer it is. */
const answers: [type: string, service: string, operation: string, status: number, place?: string][] = [
  ['AcceptedOperation', 'vector-gateway', 'upsertPoints', 202],
  ['AcceptedDeletion', 'vector-gateway', 'deletePoints', 202],
  ['ChangedPayloads', 'vector-gateway', 'setPayload', 202],
  ['SearchAnswer', 'vector-gateway', 'searchPoints', 200],
  ['SearchPgAnswer', 'vector-gateway', 'searchTable', 200],
  ['ScrollAnswer', 'vector-gateway', 'scrollPoints', 200],
  ['Collection', 'vector-gateway', 'getVectorCollection', 200],
  ['OperationState', 'vector-gateway', 'getOperation', 200],
  ['Embeddings', 'vector-gateway', 'createEmbeddings', 200],
  ['Stats', 'vector-gateway', 'getStats', 200],
  ['Health', 'vector-gateway', 'getHealth', 200],
  ['AgentDebug', 'vector-gateway', 'debugAgent', 200],
  ['Note', 'hub', 'getNote', 200],
  ['Goal', 'hub', 'getGoal', 200],
  ['Run', 'run-gateway', 'getRun', 200],
  ['Dispatch', 'run-gateway', 'getDispatch', 200],
  ['CallableAgent', 'run-gateway', 'getCallableAgent', 200],
  ['RunSession', 'run-gateway', 'listSessions', 200, '[number]'],
  ['RunEvent', 'run-gateway', 'listSessionEvents', 200, '[number]'],
  ['Schedule', 'run-gateway', 'getSchedule', 200],
  ['ScheduledRun', 'run-gateway', 'listScheduledRuns', 200, '[number]'],
  ['FireAnswer', 'webhook-relay', 'fireEvent', 202],
  ['Me', 'main-api', 'getMe', 200, "['data']"],
  ['BrainState', 'main-api', 'getBrainState', 200, "['data']"],
]

/** A deletion by ids counts none; OpenAI's clients may ask for base64. */
const knownDifferences = [
  'AcceptedDeletion.deleted: is there at the client alone',
  'AcceptedDeletion.more: is there at the client alone',
  'Embeddings.data[].embedding: text at the platform alone',
]

/** Says of two types in which places they differ: keys, whether they may be missing, and kinds of values. */
const comparison = `
type Known<T> = keyof { [K in keyof T as string extends K ? never : number extends K ? never : K]: 1 }
type Optional<T, K extends keyof T> = {} extends Pick<T, K> ? 'may be missing' : 'is there'
type Kind<T> = unknown extends T ? 'anything' : T extends string ? 'text' : T extends number ? 'number'
  : T extends boolean ? 'truth' : T extends null ? 'null' : T extends undefined ? never
  : T extends readonly unknown[] ? 'list' : 'object'
type Element<T> = Extract<T, readonly unknown[]> extends readonly (infer E)[] ? E : never
type Part<T> = Exclude<Extract<T, object>, readonly unknown[]>
type Depth = [never, 0, 1, 2, 3, 4]
/** Named values of any name have no keys to compare. */
type Differences<A, B, W extends string, D extends number = 5> = [D] extends [never] ? never
  : | (Exclude<Known<A>, Known<B>> extends infer K ? K extends string ? \`\${W}.\${K}: the client alone\` : never : never)
    | (string extends keyof A ? never : Exclude<Known<B>, Known<A>> extends infer K ? K extends string ? \`\${W}.\${K}: the platform alone\` : never : never)
    | { [K in Known<A> & Known<B> & string]: OfKey<A, B, K, \`\${W}.\${K}\`, D> }[Known<A> & Known<B> & string]
type OfKey<A, B, K extends keyof A & keyof B, W extends string, D extends number> =
  | (Optional<A, K> extends Optional<B, K> ? never : \`\${W}: \${Optional<A, K>} at the client alone\`)
  | OfValue<A[K], B[K], W, D>
type OfValue<A, B, W extends string, D extends number> = 'anything' extends Kind<A> | Kind<B> ? never
  : | ([Kind<A>] extends [Kind<B>] ? never : \`\${W}: \${Exclude<Kind<A>, Kind<B>>} at the client alone\`)
    | ([Kind<B>] extends [Kind<A>] ? never : \`\${W}: \${Exclude<Kind<B>, Kind<A>>} at the platform alone\`)
    | (Kind<Element<A>> extends never ? never : OfValue<Element<A>, Element<B>, \`\${W}[]\`, D>)
    | ([Part<A>] extends [never] ? never : [Part<B>] extends [never] ? never : Differences<Part<A>, Part<B>, W, Depth[D]>)
type Same<T extends ${knownDifferences.map((one) => `'${one}'`).join(' | ')}> = T
`

test('types of answers have the fields and kinds of the platform', { timeout: timeoutMs }, async () => {
  const { folder } = world
  const tools = await installOpenapiTools()
  for (const { name } of world.interfaces) {
    const cli = join(tools, 'node_modules', 'openapi-typescript', 'bin', 'cli.js')
    const options = ['--default-non-nullable=false', '-o', join(folder, `${name}.d.ts`)]
    await run(process.execPath, [cli, join(folder, `${name}.json`), ...options], {
      cwd: tools,
      timeout: timeoutMs,
    })
  }
  const aliasOf = (name: string) => name.replaceAll('-', '_')
  const rows = answers.map(([type, service, operation, status, place = '']) => {
    const answer = `${aliasOf(service)}.operations['${operation}']['responses'][${status}]['content']['application/json']`
    return `type _${operation} = Same<OfValue<Client.${type}, ${answer}${place}, '${type}', 5>>`
  })
  const lines = [
    ...world.interfaces.map(({ name }) => `import type * as ${aliasOf(name)} from './${name}.d.ts'`),
    `import type * as Client from '${join(projectFolder, 'packages/client/src/client.ts')}'`,
    comparison,
    ...rows,
    'export type Made = AsItShould',
    "type AsItShould = Differences<{ a: string; b?: 1; d: (1 | null)[] }, { a: number; b: 1; c: 1; d: 1[] }, 'x'>",
    "export const found: AsItShould[] = ['x.a: text at the client alone', 'x.a: number at the platform alone', 'x.b: may be missing at the client alone', 'x.c: the platform alone', 'x.d[]: null at the client alone']",
  ]
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'check.ts'), `${lines.join('\n')}\n`)
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['check.ts'] }))
  const compiler = join(projectFolder, 'node_modules', 'typescript', 'bin', 'tsc')
  const said = await run(process.execPath, [compiler, '-p', folder], { timeout: timeoutMs }).catch(
    ({ stdout }: { stdout: string }) => ({ stdout }),
  )
  expect(said.stdout).toBe('')
})

const compilerOptions = {
  target: 'es2024',
  lib: ['es2024', 'dom'],
  module: 'nodenext',
  moduleResolution: 'nodenext',
  allowImportingTsExtensions: true,
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  typeRoots: [join(projectFolder, 'node_modules', '@types')],
  types: ['node'],
}
