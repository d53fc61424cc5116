/** How the command line is used: what counts as wrong use, and what the help says. */

import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import type { Command as Program } from 'commander'
import { describe, expect, it, onTestFinished } from 'vitest'
import { helpTexts } from '#stidx/command/help.ts'
import { createCli } from '../../../cli/cli.ts'
import { isLocalSearch } from '../../../cli/commands/local-search.ts'
import { table } from '../../../cli/output.ts'
import { buildProgram } from '../../../cli/program.ts'
import { runCommand as run } from '../../support/command-line.ts'
import { temporaryFolder } from '../../support/temporary.ts'

const signal = new AbortController().signal

const wrongUses = [
  ['nonsense'],
  ['agents'],
  ['agents', 'provision'],
  ['agents', 'provision', '--agent-id', 'a', '--tier', 'gold'],
  ['agents', 'provision', '--agent-id', 'a', '--quota', '-1'],
  ['agents', 'provision', '--agent-id', 'a', '--burst', 'default'],
  ['agents', 'update'],
  ['agents', 'update', 'a', '--access', 'owner'],
  ['agents', 'update', 'a', '--burst', 'many'],
  ['lag', '--watch', '--json'],
  ['lag', '--unknown'],
  ['topics', 'tail'],
  ['topics', 'grow', 'audit.events', '--partitions', '0'],
  ['groups', 'reset', 'audit-writer', '--to', 'somewhere'],
  ['groups', 'reset', 'audit-writer', '--to', '7'],
  ['dead-letters', 'replay'],
  ['start', 'vector-gatway'],
  ['webhooks'],
  ['webhooks', 'fire'],
  ['webhooks', 'fire', '--event', 'task.completed', '--agent', 'ATLAS'],
  ['webhooks', 'fire', '--event', 'task.completed', '--result', '{'],
  ['webhooks', 'fire', '--file', '/nowhere/event.json'],
  ['webhooks', 'check', 'targets.yaml', '--rate', '0'],
  ['webhooks', 'check', 'targets.yaml', '--failures', '101'],
  ['webhooks', 'dead-letters', 'replay'],
  ['webhooks', 'dead-letters', 'discard', '--sequence', '7'],
  ['webhooks', 'dead-letters', 'discard', '--all', '--target', 'a'],
  ['webhooks', 'dead-letters', 'list', '--sequence', 'first'],
  ['webhooks', 'skip'],
  ['webhooks', 'forget'],
]

describe('the command line', () => {
  it.each(wrongUses.map((args) => [args.join(' '), args] as const))(
    'takes "%s" for wrong use',
    async (_, args) => {
      const home = join(temporaryFolder(), 'never-made')
      const { code, printed } = await run(args, { FLOTILLA_HOME: home })
      expect([code, printed]).toEqual([2, expect.stringMatching(/./)])
      expect(existsSync(home)).toBe(false)
    },
  )

  it('has an example in the help of every command', async () => {
    const program = await buildProgram(createCli({}, signal), [])
    for (const command of leaves(program)) {
      const path = pathOf(command)
      // Printed past the program: these commands load nothing of the platform, and are called by two names.
      const own = helpTexts[path[0] ?? '']
      if (isLocalSearch(path)) {
        expect(own).toContain(`$ stidx ${path[0]}`)
        continue
      }
      const { code, printed } = await run([...path, '--help'], {})
      expect([path, code]).toEqual([path, 0])
      expect(printed).toContain(`$ flotilla ${path.join(' ')}`)
    }
  })

  it('says in JSON what was refused, when JSON was asked for', async () => {
    const { code, printed } = await run(['tour', '--json'], { FLOTILLA_HOME: temporaryFolder() })
    expect(code).toBe(1)
    expect(JSON.parse(printed)).toEqual({
      error: { code: 'not_found', message: expect.stringContaining('npm start') },
    })
  })
})

describe('what people type', () => {
  it('is answered in JSON also where it is wrong, when JSON was asked for', async () => {
    for (const args of [['lag', '--unknown'], ['agents', 'tier', 'a', 'gold'], ['nonsense']]) {
      const { code, stdout, stderr } = await run([...args, '--json'], {})
      expect([code, stderr, JSON.parse(stdout)]).toEqual([
        2,
        '',
        { error: { code: 'bad_request', message: expect.stringMatching(/./) } },
      ])
    }
  })

  it('may name one or many, and asks for the version as for anything else', async () => {
    const { code, printed } = await run(['agent', 'list', '--help'], {})
    expect([code, printed]).toEqual([0, expect.stringContaining('flotilla agents list')])
    const { printed: said } = await run(['version', '--json'], {})
    expect(JSON.parse(said)).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+/) })
  })

  it('fires at no platform but that of its data directory, unless another is named', async () => {
    const home = temporaryFolder()
    const fire = ['webhooks', 'fire', '--event', 'task.completed', '--agent', 'A', '--task-id', 't', '--json']
    const { code, printed } = await run(fire, { FLOTILLA_HOME: home })
    expect([code, JSON.parse(printed)]).toEqual([
      1,
      { error: { code: 'not_found', message: expect.stringContaining(`No relay runs on ${home}`) } },
    ])
  })

  it('is answered in tables without colours', () => {
    expect(table(['agent', 'lag'], [['a', 1]])).toBe('agent  lag\na      1  ')
  })
})

describe('flotilla doctor', () => {
  it('names each engine that does not answer, and what to do, without waiting for it', async () => {
    const env = {
      FLOTILLA_HOME: join(temporaryFolder(), 'never-made'),
      DATABASE_URL: 'postgres://someone:s3cret@127.0.0.1:9/none',
      QDRANT_URL: 'http://127.0.0.1:9',
      VECTOR_GATEWAY_PORT: '0',
      WEBHOOK_GATEWAY: 'localhost:0',
    }
    const { code, printed } = await run(['doctor', '--json'], env)
    expect(code).toBe(1)
    const { ok, checks } = JSON.parse(printed) as { ok: boolean; checks: { check: string; status: string }[] }
    expect(ok).toBe(false)
    const failed = checks.filter((check) => check.status === 'fail')
    expect(failed.map((check) => check.check)).toEqual([
      'vector engine',
      'relational engine',
      'relational mirror',
    ])
    expect(printed).not.toContain('s3cret')
    expect(existsSync(env.FLOTILLA_HOME)).toBe(false)
  })
})

describe('flotilla doctor where nothing runs', () => {
  const checksOf = async (env: Record<string, string>) => {
    const { code, printed } = await run(['doctor', '--json'], env)
    return {
      code,
      checks: (JSON.parse(printed) as { checks: { check: string; status: string; found: string }[] }).checks,
    }
  }

  it('shows ports, lifetimes and targets, warns of variables nearly ours, and makes nothing', async () => {
    const folder = temporaryFolder()
    const file = join(folder, 'targets.yaml')
    writeFileSync(file, 'targets:\n  audit:\n    url: https://audit.example/s3cret\n')
    const home = join(folder, 'never-made')
    const { code, checks } = await checksOf({
      FLOTILLA_HOME: home,
      WEBHOOK_TARGETS_FILE: file,
      VECTOR_GATEWAY_PORT: '0',
      WEBHOOK_GATEWAY: 'localhost:0',
      GATEWAY_KEY_TTL_S: '777',
      KAFKA_BROKER: 'log:9092',
    })
    expect(code).toBe(0)
    expect(existsSync(home)).toBe(false)
    const text = checks.map(({ check, status, found }) => `${status} ${check}: ${found}`).join('\n')
    expect(text).toContain('ok settings of vector-gateway: GATEWAY_KEY_TTL_S 777')
    expect(text).toContain('ok port of WEBHOOK_GATEWAY: ')
    expect(text).toContain('ok webhook targets: audit (audit.example)')
    expect(text).toContain('warn environment: KAFKA_BROKER')
    expect(text).not.toContain('s3cret')
  })

  it('fails for what would stop the start: values, the targets file, the folder, a port', async () => {
    const folder = temporaryFolder()
    const file = join(folder, 'file')
    writeFileSync(file, 'targets: 7\n')
    const wrong = await checksOf({ FLOTILLA_HOME: file, WEBHOOK_TARGETS_FILE: file, LOG_LEVEL: 'loud' })
    expect([wrong.code, wrong.checks.at(-1)]).toEqual([
      1,
      expect.objectContaining({ check: 'configuration', status: 'fail' }),
    ])
    for (const part of ['LOG_LEVEL', 'FLOTILLA_HOME', 'targets must be a map']) {
      expect(wrong.checks.at(-1)!.found).toContain(part)
    }
    const server = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const home = join(folder, 'never-made')
    const env = { FLOTILLA_HOME: home, WEBHOOK_GATEWAY: 'localhost:0', VECTOR_GATEWAY_PORT: String(port) }
    const { code, checks } = await checksOf(env)
    expect(code).toBe(1)
    expect(checks.filter(({ status }) => status === 'fail')).toEqual([
      expect.objectContaining({
        check: 'port of VECTOR_GATEWAY_PORT',
        found: expect.stringContaining(String(port)),
      }),
    ])
  })
})

function leaves(program: Program): Program[] {
  return program.commands.length === 0
    ? [program]
    : program.commands.flatMap((command) => leaves(command as Program))
}

function pathOf(command: Program): string[] {
  return command.parent ? [...pathOf(command.parent), command.name()] : []
}
