/** From the gateway into a local index and back: export, index-jsonl, search, find. */

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import { runFlotilla, spawnFlotilla, startFlotilla } from '../support/flotilla-process.ts'
import { axisVector } from '../support/points.ts'

const points = 1_203

describe('a collection in a local index', () => {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  const exported = join(home, 'knowledgebase.jsonl')
  const index = join(home, 'index.stidx')
  let client: Client
  let end = async () => {}
  let stop = async () => {}
  const run = (args: string[]) => runFlotilla(args, { FLOTILLA_HOME: home })
  beforeAll(async () => {
    const platform = await startFlotilla(home, {
      atEnd: (kill) => {
        end = kill
      },
    })
    stop = async () => {
      platform.child.kill('SIGTERM')
      await platform.finished
    }
    const provisioning = ['agents', 'provision', '--agent-id', 'scout', '--json']
    const provisioned = await spawnFlotilla(provisioning, { FLOTILLA_HOME: home }, { atEnd() {} }).finished
    const { private_key_file } = JSON.parse(provisioned.stdout) as { private_key_file: string }
    const vectorUrl = platform.addresses.vector_url
    client = createClient({
      vectorUrl,
      agentId: 'scout',
      privateKeyFile: private_key_file,
      localIndex: index,
    })
    const all = Array.from({ length: points }, (_, n) => ({
      id: `note ${n}/ü`,
      vector: axisVector(n % 1536),
      payload: {
        title: `Lighthouse ${n}`,
        body: n === 7 ? 'the harbour master "repaired" the lamp' : 'nothing new '.repeat(60),
        status: n % 2 === 0 ? 'active' : 'archived',
        ...(n === 7 ? { id: 'another', collection: 'elsewhere', tags: ['lamp'], __proto__x: 1 } : {}),
      },
    }))
    for (let from = 0; from < points; from += 500) {
      await client.upsert('knowledgebase', all.slice(from, from + 500), { wait: true })
    }
  }, 240_000)
  afterAll(async () => {
    await client?.close()
    await end()
    rmSync(home, { recursive: true, force: true })
  })

  it('is exported whole, one record a line, into a file that appears when it is complete', async () => {
    const ended = await run(['export', 'knowledgebase', '--output', exported, '--json'])
    expect([ended.code, ended.stderr]).toEqual([0, ''])
    expect(JSON.parse(ended.stdout)).toEqual({ collection: 'knowledgebase', records: points, file: exported })
    const lines = readFileSync(exported, 'utf8').trimEnd().split('\n')
    const records = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(new Set(records.map(({ id }) => id)).size).toBe(points)
    // The point's own id and collection, whatever its payload says.
    expect(records.find(({ id }) => id === 'note 7/ü')).toEqual({
      id: 'note 7/ü',
      title: 'Lighthouse 7',
      body: 'the harbour master "repaired" the lamp',
      status: 'archived',
      tags: ['lamp'],
      __proto__x: 1,
      collection: 'knowledgebase',
    })
    expect(readdirSync(home).filter((name) => name.endsWith('.partial'))).toEqual([])
  })

  it('goes to standard output alike, and nothing else does', async () => {
    const ended = await run(['export', 'knowledgebase'])
    expect(ended.code).toBe(0)
    expect(ended.stdout).toBe(readFileSync(exported, 'utf8'))
    expect(ended.stderr).toBe(`${points} records of knowledgebase\n`)
  })

  it('ends with one line when its reader goes away', async () => {
    const running = spawnFlotilla(['export', 'knowledgebase'], { FLOTILLA_HOME: home })
    running.child.stdout!.once('data', () => running.child.stdout!.destroy())
    const ended = await running.finished
    expect([ended.code, ended.stderr.split('\n').length]).toEqual([1, 2])
  })

  it('is searched without the platform, and found through it: only what is needed is fetched', async () => {
    const built = await run(['index-jsonl', '--input', exported, '--output', index, '--json'])
    expect(built.code).toBe(0)
    expect(JSON.parse(built.stdout)).toMatchObject({ records: points, faults: 0 })
    const searched = await run(['search', 'harbor master repairing', '--index', index, '--json'])
    expect(JSON.parse(searched.stdout).results[0]).toMatchObject({ id: 'note 7/ü', title: 'Lighthouse 7' })

    const found = await client.find('master of the harbour', { limit: 3, fetch: 1 })
    expect(found.results[0]).toMatchObject({
      id: 'note 7/ü',
      collection: 'knowledgebase',
      point: { id: 'note 7/ü', payload: { title: 'Lighthouse 7', id: 'another' } },
    })
    expect(found.results[0]!.point!.vector).toHaveLength(1536)
    expect(found.results.slice(1).every(({ point }) => point === undefined)).toBe(true)
    expect(found.missing).toEqual([])
  })

  it('says what the gateway has no more', async () => {
    await client.delete('knowledgebase', ['note 7/ü'], { wait: true })
    const found = await client.find('"harbour master"')
    expect(found.results.map(({ id, point }) => [id, point])).toEqual([['note 7/ü', undefined]])
    expect(found.missing).toEqual(['note 7/ü'])
  })

  it('filters locally', async () => {
    const found = await client.find('lighthouse', { status: 'active', limit: 2, fetch: 0 })
    expect(found.total).toBe(Math.ceil(points / 2))
    expect(found.results.every(({ payload }) => payload.status === 'active')).toBe(true)
  })

  it('refuses collections that are none and places that cannot be written', async () => {
    const unknown = await run(['export', 'nothing', '--output', join(home, 'n.jsonl')])
    expect([unknown.code, unknown.stdout]).toEqual([1, ''])
    expect(unknown.stderr).toContain('collection_not_found')
    expect(existsSync(join(home, 'n.jsonl'))).toBe(false)
    const folder = await run(['export', 'posts', '--output', join(home, 'no', 'such', 'folder')])
    expect([folder.code, folder.stderr.split('\n').length]).toEqual([2, 2])
    expect((await run(['export', 'posts', '--json'])).code).toBe(2)
    writeFileSync(join(home, 'bad.stidx'), 'STIDX001 but nothing more')
    await expect(client.find('x', { index: join(home, 'bad.stidx') })).rejects.toMatchObject({
      name: 'SearchFault',
    })
  })

  it('is exported as well when no platform runs', async () => {
    await stop()
    const ended = await run(['export', 'posts', '--output', join(home, 'posts.jsonl'), '--json'])
    expect([ended.code, ended.stderr]).toEqual([0, ''])
    expect(JSON.parse(ended.stdout)).toMatchObject({ records: 0 })
  })
})
