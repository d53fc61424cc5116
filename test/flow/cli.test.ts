/** The `flotilla` command, as operators and their scripts use it. */

import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify, stripVTControlCharacters } from 'node:util'
import stringWidth from 'string-width'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { createClient } from '#client/client.ts'
import { runCommand, runJson } from '../support/command-line.ts'
import { eventually } from '../support/eventually.ts'
import { spawnFlotilla, startFlotilla } from '../support/flotilla-process.ts'
import { projectFolder } from '../support/pages.ts'
import { temporaryFolder } from '../support/temporary.ts'
import { openWebhookSink } from '../support/webhook-sink.ts'

const json = <T>(args: string[], home: string, code = 0, signal?: AbortSignal) =>
  runJson<T>(args, { FLOTILLA_HOME: home }, code, signal)

/** What it shows in a pseudo-terminal of 80 columns. */
async function shownAtTerminal(words: string, home: string): Promise<string> {
  const command = `stty cols 80; ${process.execPath} bin/flotilla.js ${words}`
  const env = {
    ...process.env,
    FLOTILLA_HOME: home,
    TERM: 'xterm',
    // Node paints nothing in CI.
    CI: undefined,
    NO_COLOR: undefined,
    FORCE_COLOR: undefined,
  }
  const options = { cwd: projectFolder, env, timeout: 60_000 }
  const { stdout } = await promisify(execFile)('script', ['-qec', command, '/dev/null'], options)
  return stdout.replaceAll('\r', '')
}

interface AgentDocument {
  agent_id: string
  public_key_fingerprint: string
  private_key_file: string
  [field: string]: unknown
}

interface ShownDocument {
  sessions: { key: string }[]
  operations: { operation: string }[]
  limits: { day: { used: number } }
}

it('warns who forgot FLOTILLA_HOME that the platform of this folder is new', async () => {
  const { code, stderr } = await spawnFlotilla(['agents', 'list'], {}, { cwd: temporaryFolder() }).finished
  expect(code).toBe(0)
  expect(stderr).toMatch(/"data-directory.new"/)
})

describe('flotilla with a running platform', () => {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  let vectorUrl: string
  let end = async () => {}
  beforeAll(async () => {
    const atEnd = (kill: () => Promise<void>) => {
      end = kill
    }
    const platform = await startFlotilla(home, { atEnd })
    vectorUrl = platform.addresses.vector_url
  }, 180_000)
  afterAll(async () => {
    await end()
    rmSync(home, { recursive: true, force: true })
  })

  it('rotates the key of the secrets at rest, which the first start made', async () => {
    const file = join(home, 'secret-key')
    const first = readFileSync(file, 'utf8').trim()
    // Those of operation ids, of the issuer's keys, of refresh tokens of providers and of browsers that are known.
    const rotated = await json<{ secrets: number; key_id: string }>(['secrets', 'rotate'], home)
    expect(rotated).toEqual({ secrets: 4, key_id: expect.stringMatching(/^[0-9a-f]{16}$/), kept_in: file })
    expect(readFileSync(file, 'utf8').trim().split('\n')).toEqual([expect.not.stringContaining(first), first])
  })

  it('remembers and recalls texts, also of the standard input, and refuses empty ones', async () => {
    const flotilla = (words: string[], input: string) =>
      new Promise<string>((resolve, reject) => {
        const command = [...words, '--collection', 'almemsha', '--json']
        const env = { ...process.env, FLOTILLA_HOME: home }
        const options = { cwd: projectFolder, env, timeout: 60_000 }
        const { stdin } = execFile(
          process.execPath,
          ['bin/flotilla.js', ...command],
          options,
          (error, out) => (error && out === '' ? reject(error) : resolve(out)),
        )
        // It stops reading where there is too much.
        stdin!.on('error', () => {}).end(input)
      })
    const kept = JSON.parse(await flotilla(['remember', '-', '--id', 'lamp'], 'The lamp is lit\nat seven\n'))
    expect(kept).toEqual({ collection: 'almemsha', id: 'lamp' })
    const found = JSON.parse(await flotilla(['recall', '-'], 'When is the lamp lit?'))
    expect(found.results[0]).toMatchObject({ id: 'lamp', payload: { text: 'The lamp is lit\nat seven' } })
    const none = JSON.parse(await flotilla(['recall', 'lamp', '--where', 'text~oil'], ''))
    expect(none.results).toEqual([])
    const some = JSON.parse(await flotilla(['recall', 'lamp', '--where', 'text~lit seven, by='], ''))
    expect(some.results).toHaveLength(1)
    const wrong = JSON.parse(await flotilla(['recall', 'lamp', '--where', 'text'], ''))
    expect(wrong.error).toMatchObject({ code: 'bad_request' })
    const expires = '2999-01-31T12:00:00.000Z'
    const brief = await flotilla(['remember', 'Fog', '--id', 'fog', '--expires', '2999-01-31'], '')
    expect(JSON.parse(brief)).toEqual({
      collection: 'almemsha',
      id: 'fog',
      expires_at: '2999-01-31T00:00:00.000Z',
    })
    expect(JSON.parse(await flotilla(['remember', 'Fog', '--id', 'fog', '--expires', expires], ''))).toEqual({
      collection: 'almemsha',
      id: 'fog',
      expires_at: expires,
    })
    const fog = JSON.parse(await flotilla(['recall', 'fog', '--where', 'text~fog'], ''))
    expect(fog.results).toEqual([expect.objectContaining({ id: 'fog', expires_at: expires })])
    for (const time of ['30d', '2026-01-01']) {
      const refused = JSON.parse(await flotilla(['remember', 'Fog', '--expires', time], ''))
      expect(refused.error).toMatchObject({ code: 'bad_request', message: expect.stringContaining(time) })
    }
    for (const words of [['remember'], ['recall']]) {
      expect(JSON.parse(await flotilla([...words, ''], '')).error.message).toMatch(/text/)
      expect(JSON.parse(await flotilla([...words, '-'], '\n')).error.message).toMatch(/text/)
    }
    const long = JSON.parse(await flotilla(['remember', '-'], 'x'.repeat(2_000_000)))
    expect(long.error).toMatchObject({ code: 'payload_too_large' })
  })

  it('keeps agents: provision, list, show, tier, update, rotate, delete', async () => {
    const args = ['agents', 'provision', '--agent-id', 'Scout', '--role', 'explorer', '--access', 'viewer']
    const made = await json<AgentDocument>([...args, '--quota', '500', '--tier', 'research-agent'], home)
    expect(made).toEqual({
      agent_id: 'Scout',
      uid: expect.any(String),
      role: 'explorer',
      access: 'viewer',
      tier: 'research-agent',
      quota: 500,
      public_key_fingerprint: expect.stringMatching(/^SHA256:[A-Za-z0-9+/]{43}$/),
      private_key_file: join(home, 'agents', 'Scout', 'ed25519.pem'),
    })
    expect(statSync(made.private_key_file).mode & 0o777).toBe(0o600)
    expect(readFileSync(made.private_key_file, 'utf8')).toMatch(/^-----BEGIN PRIVATE KEY-----/)
    const client = () =>
      createClient({
        vectorUrl,
        agentId: 'Scout',
        privateKeyFile: made.private_key_file,
      })
    expect(await client().count('posts')).toBe(0)

    const again = await json<{ error: { code: string } }>(
      ['agents', 'provision', '--agent-id', 'SCOUT'],
      home,
      1,
    )
    expect(again.error.code).toBe('agent_exists')
    const { agents } = await json<{ agents: AgentDocument[] }>(['agents', 'list'], home)
    // The six of the reference nodes, too.
    expect(agents.map(({ agent_id }) => agent_id)).toEqual([
      'atlas',
      'axon',
      'cipher',
      'nexus',
      'pulse',
      'Scout',
      'whale',
    ])
    expect(await json(['agents', 'tier', 'scout', 'agent'], home)).toMatchObject({ tier: 'agent' })
    const figures = ['--burst', '60', '--concurrent', '7', '--quota', '600', '--name', 'The scout']
    expect(await json(['agents', 'update', 'scout', ...figures], home)).toMatchObject({
      ...{ agent_id: 'Scout', name: 'The scout', access: 'viewer' },
      ...{ quota: 600, burst: 60, concurrent: 7 },
    })
    const back = ['--burst', 'default', '--concurrent', 'default', '--quota', '500']
    expect(await json(['agents', 'update', 'scout', ...back], home)).toMatchObject({
      ...{ quota: 500, burst: null, concurrent: null },
    })
    const nothing = await json<{ error: { code: string } }>(['agents', 'update', 'scout'], home, 2)
    expect(nothing.error.code).toBe('validation_failed')

    const kept = await json<{ error: { code: string } }>(['agents', 'rotate', 'scout'], home, 1)
    expect(kept.error.code).toBe('conflict')
    const old = client()
    await old.apiKey()
    const rotated = await json<AgentDocument>(['agents', 'rotate', 'scout', '--force'], home)
    expect(rotated.public_key_fingerprint).not.toBe(made.public_key_fingerprint)
    expect(await client().count('posts')).toBe(0)
    const shown = await eventually('the use of the day', async () => {
      const found = await json<ShownDocument>(['agents', 'show', 'scout'], home)
      return found.limits.day.used === 2 ? found : undefined
    })
    expect(shown.limits).toMatchObject({ day: { limit: 500, remaining: 498 }, burst: { limit: 50 } })
    expect(shown.sessions[0]?.key).toMatch(/^[A-Za-z0-9_-]{6}$/)
    expect(shown.operations.map(({ operation }) => operation)).toContain('count')
    const stats = await json<{ collections: { collection: string }[]; search: object }>(['stats'], home)
    expect(stats.collections.map(({ collection }) => collection).sort()).toEqual([
      'almemsha',
      'fleet_notes',
      'knowledgebase',
      'posts',
    ])
    expect(stats.search).toEqual({ p95_ms: null, requests: 0, window_s: 300 })

    expect(await json(['agents', 'delete', 'scout'], home)).toMatchObject({ deleted: true })
    await expect(client().count('posts')).rejects.toMatchObject({ code: 'unknown_agent' })
    expect(await json(['agents', 'show', 'scout'], home, 1)).toMatchObject({ error: { code: 'not_found' } })
  }, 300_000)

  it('looks into the log: lag, tail, dead letters, groups, doctor', async () => {
    const { private_key_file } = await json<AgentDocument>(['agents', 'provision', '--agent-id', 'a'], home)
    const client = createClient({
      vectorUrl,
      agentId: 'a',
      privateKeyFile: private_key_file,
    })
    await client.count('posts')
    // The relational-writer joins once there is something to mirror.
    const lag = await eventually('every group has a member', async () => {
      const found = await json<{ groups: { group: string; members: number }[] }>(['lag'], home)
      return found.groups.every(({ members }) => members > 0) ? found : null
    })
    expect(lag.groups.map(({ group, members }) => [group, members])).toEqual([
      ['vector-writer', 1],
      ['relational-writer', 1],
      ['audit-writer', 1],
      ['webhook-relay', 1],
      ['note-indexer', 1],
      ['webhook-courier', 1],
    ])
    const tail = await eventually('all audit records', async () => {
      const found = await json<{ records: { key: string; value: { operation: string; phase: string } }[] }>(
        ['topics', 'tail', 'audit.events'],
        home,
      )
      return found.records.length >= 6 ? found : null
    })
    expect(tail.records.map(({ value }) => `${value.operation} ${value.phase}`)).toContain('count ended')
    expect(await json(['dead-letters', 'list'], home)).toEqual({ dead_letters: [] })
    expect(await json(['dead-letters', 'replay', '--topic', 'audit.events'], home, 1)).toMatchObject({
      error: { code: 'dead_letter_not_found' },
    })
    expect(await json(['groups', 'reset', 'audit-writer', '--to', 'beginning'], home, 1)).toMatchObject({
      error: { code: 'group_active' },
    })
    const place = ['--partition', '0', '--offset', '999999']
    expect(await json(['groups', 'skip', 'vector-writer', ...place], home, 1)).toMatchObject({
      error: { code: 'not_found' },
    })
    const doctor = await json<{ ok: boolean; checks: { check: string; status: string }[] }>(['doctor'], home)
    expect(doctor.ok).toBe(true)
    expect(doctor.checks.filter((check) => check.status === 'fail')).toEqual([])

    // As with `| head`: who reads goes away.
    const piped = spawnFlotilla(['export', 'fleet_notes'], { FLOTILLA_HOME: home })
    piped.child.stdout!.destroy()
    expect(await piped.finished).toMatchObject({ code: 0, stderr: '' })

    const watching = spawnFlotilla(['topics', 'tail', 'audit.events', '--last', '1'], { FLOTILLA_HOME: home })
    await eventually('the first record', () => watching.stdout().includes('"event_id"'))
    watching.child.kill('SIGINT')
    expect((await watching.finished).code).toBe(0)
  }, 300_000)

  it('fits into a terminal, and says there what it cut', async () => {
    const commands = ['doctor --all', 'agents list', 'topics list', 'lag', '--help', 'webhooks --help']
    for (const words of [...commands, 'topics tail agents.changes --no-follow --last 3']) {
      const lines = stripVTControlCharacters(await shownAtTerminal(words, home)).split('\n')
      const tooLong = lines.filter((line) => stringWidth(line) > 80)
      expect([words, lines.length > 3, tooLong]).toEqual([words, true, []])
    }
    const narrow = await shownAtTerminal('agents list', home)
    const wide = await shownAtTerminal('agents list --wide', home)
    expect([narrow, wide].map((text) => text.includes('--wide shows all'))).toEqual([true, false])
    expect(wide).toMatch(/SHA256:[A-Za-z0-9+/]{43}/)
    expect(wide).toContain('\x1b[1magent\x1b[22m')
    const record = await shownAtTerminal('topics tail agents.changes --no-follow --last 1', home)
    expect(record).toMatch(/^\d\d:\d\d:\d\d {2}\d+\/\d+ {2}\S+ {2}\w+=.*…\n/)
    expect(await shownAtTerminal('agents show atlas', home)).toMatch(/created_at\S* +\d+ \w+ ago\n/)
    const { stdout } = await runCommand(['agents', 'show', 'atlas'], { FLOTILLA_HOME: home })
    expect(stdout).toMatch(/created_at +\d{4}-\d\d-\d\dT/)
  })

  it('fires webhooks, shows the status of their targets, and replays dead letters', async () => {
    let well = false
    const sink = await openWebhookSink(({ sequence }) => ({ status: well || sequence !== 1 ? 204 : 422 }))
    onTestFinished(() => sink.close())
    writeFileSync(join(home, 'targets.yaml'), JSON.stringify({ targets: { picky: { url: sink.url } } }))
    const fire = (task: string) =>
      json<{ deliveries: { sequence: number }[] }>(
        [
          'webhooks',
          'fire',
          '--event',
          'task.completed',
          '--agent',
          'A',
          '--task-id',
          task,
          '--targets',
          'picky',
        ],
        home,
      )
    // Until the relay has seen the file there is no such target.
    const first = await eventually('the target is known', () => fire('t-0').catch(() => null), 60_000)
    expect(first.deliveries).toEqual([{ target: 'picky', sequence: 0 }])
    await fire('t-1')
    const letters = await eventually('it is given up', async () => {
      const listed = await json<{ dead_letters: object[] }>(['webhooks', 'dead-letters', 'list'], home)
      return listed.dead_letters.length === 1 ? listed.dead_letters : null
    })
    expect(letters).toMatchObject([{ target: 'picky', sequence: 1, reason: 'http_422', attempts: 1 }])
    await eventually('nothing waits any more', async () => {
      const { targets } = await json<{ targets: object[] }>(['webhooks', 'targets'], home)
      expect(targets).toMatchObject([{ target: 'picky', lag: 0, breaker: 'closed' }])
      return true
    })
    well = true
    // The command of every topic finds the partition of the target, too.
    const replayed = await json(['dead-letters', 'replay', '--topic', 'webhooks.deliveries'], home)
    expect(replayed).toMatchObject({ results: [{ status: 'replayed' }] })
    await eventually('the replay arrives', () => sink.received.some(({ replay }) => replay))
    expect(await json(['webhooks', 'skip', 'nobody'], home, 1)).toMatchObject({
      error: { code: 'not_found' },
    })
  }, 300_000)
})

const freePorts = {
  VECTOR_GATEWAY_PORT: '0',
  MAIN_API_PORT: '0',
  HUB_PORT: '0',
  RUN_GATEWAY_PORT: '0',
  WEBHOOK_GATEWAY: 'localhost:0',
}

/** Every path of a data directory with its size and time. */
function filesOf(home: string): string[] {
  const paths = readdirSync(home, { recursive: true }).map((path) => join(home, String(path)))
  return [home, ...paths].map((path) => {
    const { size, mtimeMs } = statSync(path)
    return `${path} ${size} ${mtimeMs}`
  })
}

describe('flotilla where nothing runs', () => {
  it('opens the engines itself, under the lock', async () => {
    const home = temporaryFolder()
    await json(['agents', 'provision', '--agent-id', 'early'], home)
    expect(await json(['rebuild', 'vectors'], home)).toMatchObject({ generation: 2 })
    const before = filesOf(home)
    const doctor = await runCommand(['doctor', '--json'], { FLOTILLA_HOME: home, ...freePorts })
    expect([doctor.code, doctor.stdout]).toEqual([0, expect.not.stringContaining('"fail"')])
    expect(filesOf(home)).toEqual(before)
    // The log has another group now: it is called as before.
    const reset = await json<{ group: string; positions: unknown[] }>(
      ['groups', 'reset', 'vector-writer', '--to', 'end'],
      home,
    )
    expect([reset.group, reset.positions.length]).toEqual(['vector-writer', 12])
  }, 300_000)

  it('embeds a text without touching the data directory', async () => {
    const home = join(temporaryFolder(), 'none')
    const first = await json<{ embedding: number[] }>(['embed', 'a lighthouse'], home)
    expect(first.embedding).toHaveLength(1536)
    expect(existsSync(home)).toBe(false)
  })
})
