import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pino from 'pino'
import { describe, expect, it } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { loadNodes, nodesFile, nodesFileOf, watchNodes } from '#services/runs/nodes/nodes.ts'
import { eventually } from '#test/support/eventually.ts'
import { temporaryFolder } from '#test/support/temporary.ts'

const env = { TOKEN: 'a-secret-of-a-node', HOST_OF_ATLAS: 'atlas.example' }
const parse = (text: string) => nodesFile.parse(text, env, 'nodes.yaml')

function faultsOf(text: string): string[] {
  try {
    parse(text)
  } catch (error) {
    if (error instanceof AppError)
      return (error.errors ?? []).map(({ path, message }) => `${path}: ${message}`)
    throw error
  }
  return []
}

describe('the nodes file', () => {
  it('names nodes with all their fields', () => {
    const { nodes, secrets, bySlug, byCodename } = parse(`
nodes:
  whale:
    codename: WHALE
    role: Large capacity and deep analysis
    skills: [Long texts, 'Passages: with paths']
    url: http://127.0.0.1:8801/base/
    app: whale_app
    headers:
      Authorization: Bearer \${TOKEN}
    timeout_ms: 60000
    concurrency: 4
  data-bot: {url: 'https://\${HOST_OF_ATLAS}'}
`)
    expect(nodes).toEqual([
      {
        slug: 'whale',
        codename: 'WHALE',
        role: 'Large capacity and deep analysis',
        skills: ['Long texts', 'Passages: with paths'],
        url: 'http://127.0.0.1:8801/base',
        app: 'whale_app',
        headers: { Authorization: 'Bearer a-secret-of-a-node' },
        timeoutMs: 60_000,
        concurrency: 4,
      },
      {
        slug: 'data-bot',
        codename: 'DATA_BOT',
        role: '',
        skills: [],
        url: 'https://atlas.example',
        app: 'data-bot',
        headers: {},
        timeoutMs: 300_000,
        concurrency: 16,
      },
    ])
    expect(secrets).toContain('a-secret-of-a-node')
    expect(bySlug('whale')).toBe(nodes[0])
    expect(byCodename('Data_Bot')).toBe(nodes[1])
    expect(bySlug('__proto__')).toBeUndefined()
  })

  it('takes credentials for secrets that are written into the file itself', () => {
    const headers =
      'Authorization: Basic plain-secret, x-api-key: another-secret, X-Team: platform-team, Cookie: short'
    const { secrets } = parse(`nodes: {whale: {url: 'http://127.0.0.1:1', headers: {${headers}}}}`)
    expect([...secrets].sort()).toEqual(['Basic plain-secret', 'another-secret', 'plain-secret'])
  })

  it.each([
    ['[]', 'line 1: the file must be a map'],
    ['nodes: {}\nnode: {}', 'line 2, node: is not a known key: did you mean nodes?'],
    ['nodes:\n  whale: {}', 'line 2, nodes.whale: has no url'],
    ['nodes:\n  Whale: {url: http://h}', 'line 2, nodes.Whale: is not a slug'],
    ['nodes:\n  runs: {url: http://h}', 'line 2, nodes.runs: is a path of the run gateway'],
    ['nodes:\n  aa: {url: http://h, skills: read}', 'must be a list of at most 32 texts'],
    ['nodes:\n  aa: {url: http://h, skills: [7]}', 'line 2, nodes.aa.skills[0]'],
    [`nodes:\n  aa: {url: http://h, skills: [${'a, '.repeat(33)}]}`, 'must be a list of at most 32 texts'],
    [`nodes:\n  aa: {url: http://h, skills: [${'a'.repeat(101)}]}`, 'line 2, nodes.aa.skills[0]'],
    ['nodes:\n  a: {url: http://h, urll: x}', 'line 2, nodes.a.urll: is not a known key: did you mean url?'],
    ['nodes:\n  aa: {url: http://h, codename: Whale}', 'is not a codename'],
    ['nodes:\n  a: {url: http://h}', 'needs a codename'],
    [
      'nodes:\n  aa: {url: http://h}\n  bb: {url: http://h, codename: AA}',
      'line 3, nodes.bb: has the codename',
    ],
    ['nodes:\n  aa: {url: ftp://h}', 'must begin with http'],
    ['nodes:\n  aa: {url: http://u:p@h}', 'holds a user or password'],
    ['nodes:\n  aa: {url: http://h/?x=1}', 'has a query'],
    ['nodes:\n  aa: {url: http://169.254.169.254}', 'is a link-local address'],
    ['nodes:\n  aa: {url: http://h, timeout_ms: 300001}', 'is 300,001: a whole number from 1,000 to 300,000'],
    ['nodes:\n  aa: {url: http://h, concurrency: 0}', 'is 0: a whole number from 1 to 1,000'],
    [
      'nodes:\n  aa:\n    url: http://h\n    headers: {host: x}',
      'line 4, nodes.aa.headers.host: is set by the platform',
    ],
    [
      `nodes:\n  aa:\n    url: http://h\n    headers: {x: "\${UNSET}"}`,
      'needs the environment variable UNSET',
    ],
    ['nodes:\n  aa: {url: http://h}\n  aa: {url: http://h}', 'line 3: a key appears twice'],
  ])('%j is refused with its place', (text, fault) => {
    expect(faultsOf(text).join('\n')).toContain(fault)
  })

  it('never quotes the value of a variable', () => {
    expect(faultsOf(`nodes:\n  aa: {url: "http://u:\${TOKEN}@h"}`).join()).not.toContain('a-secret')
  })

  it('may be absent only where the environment names none', () => {
    const home = temporaryFolder()
    expect(nodesFileOf({ FLOTILLA_HOME: home })).toEqual({ path: join(home, 'nodes.yaml'), optional: true })
    expect(() => loadNodes({ FLOTILLA_HOME: home })).not.toThrow()
    const named = { FLOTILLA_HOME: home, RUN_NODES_FILE: join(home, 'others.yaml') }
    expect(() => loadNodes(named)).toThrow(/cannot be read \(ENOENT\).*RUN_NODES_FILE/)
    writeFileSync(join(home, 'nodes.yaml'), `nodes: {aa: {url: "\${UNSET_ONE}"}}`)
    expect(() => loadNodes({ FLOTILLA_HOME: home })).toThrow(/UNSET_ONE/)
  })

  it('is taken up when it changes; a faulty one is refused and the old one stays', async () => {
    const home = temporaryFolder()
    const path = join(home, 'nodes.yaml')
    const log = pino({ level: 'silent' })
    const watched = watchNodes({ env: { ...env, FLOTILLA_HOME: home }, log })
    try {
      expect(watched.current().nodes).toEqual([])
      writeFileSync(path, 'nodes: {whale: {url: http://h}}')
      await eventually('it is taken up', () => watched.current().nodes.length === 1)
      writeFileSync(path, 'nodes: {whale: {}, pulse: {url: http://h}}')
      await eventually('it is refused', () => watched.refused() !== null)
      expect(watched.current()).toMatchObject({ nodes: [{ slug: 'whale' }] })
      writeFileSync(path, 'nodes: {pulse: {url: http://h}}')
      await eventually('it is taken up', () => watched.current().bySlug('pulse') !== undefined)
      expect(watched.refused()).toBeNull()
    } finally {
      await watched.close()
    }
    expect(loadNodes({ ...env, FLOTILLA_HOME: home }).nodes).toHaveLength(1)
  })
})
