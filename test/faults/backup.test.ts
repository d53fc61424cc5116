/** Backup and restore of the embedded platform, as an operator does it: under load, stopped, and killed in the midst. */

import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { restoringFile } from '#lib/data-directory.ts'
import {
  command,
  copyOf,
  type LivePlatform,
  startLive,
  startLoad,
  type Written,
  writeTarget,
} from '../support/backup-world.ts'
import { eventually } from '../support/eventually.ts'
import { spawnFlotilla } from '../support/flotilla-process.ts'
import { openWebhookSink, type WebhookSink } from '../support/webhook-sink.ts'

const main = fileURLToPath(new URL('../../cli/main.ts', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'fl-'))
const home = join(folder, 'home')
const backups = join(folder, 'backups')
const file = join(backups, 'first.tar.zst')
const restored = join(folder, 'restored')
const ends: (() => Promise<void>)[] = []
const atEnd = (kill: () => Promise<void>) => void ends.push(kill)

// The tests share one platform and its backup: each goes on where the one before it ended.
let sink: WebhookSink
let platform: LivePlatform
/** The writes acknowledged before the backup began. */
let before: Written

beforeAll(async () => {
  mkdirSync(home)
  mkdirSync(backups)
  sink = await openWebhookSink()
  // Its events wait in the log, so that the restored platform has them to deliver.
  await sink.down()
  writeTarget(home, sink.url)
  platform = await startLive(home, { atEnd })
})

afterAll(async () => {
  for (const end of ends) await end()
  await sink?.close()
  rmSync(folder, { recursive: true, force: true })
})

const taskOf = ({ body }: { body: Buffer }) => (JSON.parse(String(body)) as { task_id: string }).task_id

describe('a backup of a running platform', { timeout: 240_000 }, () => {
  it('is made under load, for its owner alone, and nothing else is left', async () => {
    const load = startLoad(platform)
    await eventually('something of everything', () => Math.min(...countsOf(load.written)) >= 10, 60_000)
    before = copyOf(load.written)
    const { code, json, stderr } = await command(home, 'backup', file)
    await load.stop()
    expect(stderr).toBe('')
    expect([code, json]).toMatchObject([0, { file, bytes: statSync(file).size }])
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readdirSync(backups)).toEqual(['first.tar.zst'])
    // Writes went on meanwhile.
    for (const [n, count] of countsOf(load.written).entries())
      expect(count).toBeGreaterThan(countsOf(before)[n]!)
    expect((await command(home, 'restore', file, '--check')).code).toBe(0)
  })

  it('gets a name of its own in a folder; replaces nothing; is never put into the data directory', async () => {
    const own = await command(home, 'backup', backups)
    expect(own.json.file).toMatch(/\/flotilla-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.tar\.zst$/)
    rmSync(String(own.json.file))
    expect(await command(home, 'backup', file)).toMatchObject({
      code: 1,
      json: { error: { code: 'conflict' } },
    })
    expect(await command(home, 'backup', join(home, 'b'))).toMatchObject({ code: 2 })
  })

  it('whose command is killed leaves no half file of the name, and the next one removes the rest', async () => {
    const second = join(backups, 'second.tar.zst')
    const killed = spawnFlotilla(['backup', second], { FLOTILLA_HOME: home }, { atEnd })
    await eventually('it has begun', () => readdirSync(backups).some((name) => name.endsWith('.partial')))
    killed.child.kill('SIGKILL')
    await killed.finished
    // Usually the file is missing; on a machine that stalls here it may be whole by now.
    if (existsSync(second)) {
      expect((await command(home, 'restore', second, '--check')).code).toBe(0)
      rmSync(second)
    }
    expect((await command(home, 'backup', second)).code).toBe(0)
    rmSync(second)
    // The platform removes its copy when the connection of the command closes.
    await eventually('nothing is left', () => readdirSync(backups).length === 1)
  })

  it('whose platform is killed leaves nothing, or the whole file', async () => {
    const third = join(backups, 'third.tar.zst')
    const asking = spawnFlotilla(['backup', third], { FLOTILLA_HOME: home }, { atEnd })
    await eventually('it has begun', () => readdirSync(backups).some((name) => name.endsWith('.partial')))
    platform.child.kill('SIGKILL')
    await platform.finished
    // Where the copy was ready by then, the command needs the platform no more.
    const { code } = await asking.finished
    expect(existsSync(third)).toBe(code === 0)
    rmSync(third, { force: true })
    expect(readdirSync(backups)).toEqual(['first.tar.zst'])
  })

  it('works as well where the platform is stopped, after a kill as here', async () => {
    const stopped = join(backups, 'stopped.tar.zst')
    expect((await command(home, 'backup', stopped)).code).toBe(0)
    expect((await command(home, 'restore', stopped, '--check')).code).toBe(0)
    rmSync(stopped)
  })

  it.skipIf(process.platform === 'win32')('that finds no room says so, and leaves nothing', () => {
    // A limit on the size of files acts as a full disk.
    const limited = 'trap "" XFSZ; ulimit -f 64; exec "$0" "$@"'
    const env = { PATH: process.env.PATH ?? '', FLOTILLA_HOME: home }
    const full = join(backups, 'full.tar.zst')
    const args = ['-c', limited, process.execPath, main, 'backup', full]
    const { status, stderr } = spawnSync('sh', args, { env, encoding: 'utf8', timeout: 60_000 })
    expect(stderr).toMatch(/^invalid_configuration: .*(disk is full|larger than this process may write)/)
    expect([status, readdirSync(backups)]).toEqual([1, ['first.tar.zst']])
  })
})

describe('a restore', { timeout: 240_000 }, () => {
  it('of a damaged file names the fault and leaves the folder empty', async () => {
    const bytes = readFileSync(file)
    bytes[bytes.length >> 1]! ^= 1
    const damaged = join(folder, 'damaged.tar.zst')
    writeFileSync(damaged, bytes)
    const { code, json } = await command(restored, 'restore', damaged)
    expect([code, json]).toMatchObject([1, { error: { message: expect.stringContaining('is damaged') } }])
    expect(readdirSync(restored)).toEqual([])
  })

  it('refuses the data directory that is in use', async () => {
    const refused = { code: 1, json: { error: { message: expect.stringContaining('is not empty') } } }
    expect(await command(home, 'restore', file)).toMatchObject(refused)
  })

  it('that is killed leaves a folder that no start takes, and can begin again', async () => {
    const killed = spawnFlotilla(['restore', file], { FLOTILLA_HOME: restored }, { atEnd })
    await eventually('files are there', () => existsSync(join(restored, 'postgres', 'PG_VERSION')))
    killed.child.kill('SIGKILL')
    await killed.finished
    expect(existsSync(join(restored, restoringFile))).toBe(true)
    const start = await command(restored, 'doctor')
    expect(start.code).toBe(1)
    expect(start.stdout).toContain('was not finished')
    const { code, json, stderr } = await command(restored, 'restore', file)
    expect([code, stderr, json.home]).toEqual([0, '', restored])
    expect(existsSync(join(restored, restoringFile))).toBe(false)
  })

  it('gives back all that was acknowledged before the backup began, and nothing half', async () => {
    await sink.up()
    sink.forget()
    writeTarget(restored, sink.url)
    platform = await startLive(restored, { atEnd, provisioned: true })
    const { client } = platform
    // Points are there at once: the restore has filled the index.
    const inIndex = new Set<string>()
    for await (const { id } of client.scrollAll({ collection: 'posts', limit: 1_000 })) inIndex.add(id)
    expect(before.points.filter((id) => !inIndex.has(id))).toEqual([])
    const notes = new Set<number>()
    for await (const { id } of client.notes.all()) notes.add(id)
    expect(before.notes.filter((id) => !notes.has(id))).toEqual([])
    // Each note has its point, and each point its note.
    const indexed = async () => {
      const found = new Set<string>()
      for await (const { id } of client.scrollAll({ collection: 'fleet_notes', limit: 1_000 })) {
        if (id.startsWith('note-')) found.add(id)
      }
      return [...found].sort()
    }
    const expected = [...notes].map((id) => `note-${id}`).sort()
    await eventually('every note is found', async () => (await indexed()).length >= expected.length, 60_000)
    expect(await indexed()).toEqual(expected)
    const isThere = (task: string) => sink.received.some((one) => taskOf(one) === task)
    await eventually('what waited is delivered', () => before.fired.every(isThere), 90_000)
    const order = sink.received.map(taskOf)
    expect(order).toEqual([...order].sort((a, b) => Number(a.slice(2)) - Number(b.slice(2))))
    // The mirror is made again from the log.
    const vector = new Array(1536).fill(0).with(0, 1)
    const mirrored = async () => (await client.searchPg({ vector, limit: 1_000 })).results.length
    await eventually(
      'the mirror is filled',
      async () => (await mirrored()) >= Math.min(before.points.length, 1_000),
      90_000,
    )
  })

  it('makes ids of operations from before unknown, passes the doctor, and goes on', async () => {
    const { client } = platform
    for (const id of before.operations.slice(0, 3)) {
      await expect(client.operation(id)).rejects.toMatchObject({ code: 'operation_not_found' })
    }
    const doctor = await command(restored, 'doctor')
    expect([doctor.code, doctor.json.ok]).toEqual([0, true])
    const point = { id: 'p-0-0', vector: new Array(1536).fill(0).with(7, 1), payload: { n: 'after' } }
    expect((await client.upsert('posts', [point], { wait: true })).status).toBe('applied')
    expect(await client.get('posts', 'p-0-0')).toMatchObject({ payload: { n: 'after' } })
    const note = await client.notes.create({ subject: 'after', body: 'the restore' })
    expect(before.notes).not.toContain(note.id)
    await client.webhooks.fire({ event: 'task.completed', agent: 'keeper', task_id: 't-after' })
    await eventually('the new event', () => sink.received.some((one) => taskOf(one) === 't-after'), 60_000)
    platform.child.kill('SIGTERM')
    expect((await platform.finished).code).toBe(0)
  })
})

function countsOf({ points, notes, fired }: Written): number[] {
  return [points.length, notes.length, fired.length]
}
