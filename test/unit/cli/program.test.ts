/** How the command line is used: what counts as wrong use, and what the help says. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command as Program } from 'commander'
import { describe, expect, it } from 'vitest'
import { helpTexts } from '#stidx/command/help.ts'
import { createCli } from '../../../cli/cli.ts'
import { isLocalSearch } from '../../../cli/commands/local-search.ts'
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
  ['notes', 'show', 'x'],
  ['notes', 'add', 'subject'],
  ['notes', 'list', '--status', 'pending'],
  ['goals', 'set', '1', '--status', 'resolved'],
  ['goals', 'list', '--limit', '1001'],
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
  ['completion'],
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

  it('has every command in a group of the help, in lines that fit', async () => {
    const { code, printed } = await run(['--help'], {})
    expect([code, printed]).toEqual([0, expect.not.stringContaining('\nCommands:')])
    expect(printed).toMatch(/\nFleet:\n(?: .*\n)* {2}runs /)
    expect(printed.split('\n').filter((line) => line.length > 80)).toEqual([])
    const program = await buildProgram(createCli({}, signal), [])
    for (const command of program.commands) expect([command.name(), command.helpGroup()]).not.toContain('')
  })

  it('names the command that may be meant', async () => {
    expect((await run(['agens', 'list'], {})).stderr).toContain('Did you mean agents?')
    expect((await run(['topics', 'lst'], {})).stderr).toContain('Did you mean list?')
  })

  it('reports a refusal in JSON under --json', async () => {
    const { code, printed } = await run(['tour', '--json'], { FLOTILLA_HOME: temporaryFolder() })
    expect(code).toBe(1)
    expect(JSON.parse(printed)).toEqual({
      error: { code: 'not_found', message: expect.stringContaining('npx flotilla start') },
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

  it.each([
    ['notes list --limit 0', '--limit is "0": a whole number from 1 to 1,000'],
    ['agents update a --burst 0', '--burst is "0": a whole number, 1 or more, or default'],
    ['agents update a --access owner', '--access is "owner": one of admin, member, viewer'],
    ['groups reset audit-writer --to x', '--to is "x": beginning, end, or an offset'],
    ['notes show x', 'id is "x": a whole number, 1 or more'],
    ['webhooks check t.yaml --failures 101', '--failures is "101": a number from 0 to 100'],
  ])('is answered with the value and the rule: %s', async (typed, message) => {
    const { code, stdout } = await run([...typed.split(' '), '--json'], {})
    expect([code, JSON.parse(stdout)]).toEqual([2, { error: { code: 'bad_request', message } }])
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
})

function leaves(program: Program): Program[] {
  return program.commands.length === 0
    ? [program]
    : program.commands.flatMap((command) => leaves(command as Program))
}

function pathOf(command: Program): string[] {
  return command.parent ? [...pathOf(command.parent), command.name()] : []
}
