/** One declaration, mounted as a command and as a route: what each takes, answers, shows and notes. */

import { Command as Program } from 'commander'
import fastify from 'fastify'
import { Type } from 'typebox'
import { expect, onTestFinished, test } from 'vitest'
import type { Cli, Printing } from '#cli/cli.ts'
import { layOut, unlimited } from '#cli/layout.ts'
import { mountActions as mountCommands } from '#cli/mount-actions.ts'
import { type Action, defineAction, tableOf } from '#operations/action.ts'
import { actions } from '#operations/list.ts'
import { wrapAnswers } from '#runtime/http/send-rows.ts'
import { createValidator } from '#runtime/http/validation.ts'
import type { MainApi } from '#services/main-api/main-api.ts'
import { mountActions as mountRoutes } from '#services/main-api/mount-actions.ts'
import { rbac } from '#services/main-api/rbac.ts'
import { envelope } from '#services/main-api/schemas.ts'

const asked: unknown[] = []
const sortBoats = defineAction({
  name: 'boats sort',
  summary: 'Sort boats',
  args: Type.Object({
    harbour: Type.String(),
    berth_no: Type.Optional(Type.Union([Type.Integer({ minimum: 1 }), Type.Null()])),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 5 })),
    filter: Type.Optional(Type.Object({ kind: Type.Optional(Type.Enum(['sail', 'row'])) })),
    wet: Type.Optional(Type.Boolean()),
  }),
  async run(_context, args) {
    asked.push(args)
    return { boats: [{ name: `a\u001b[2Jb\n${args.harbour}` }], refused: 1 }
  },
  http: {
    role: 'member',
    problems: ['not_found'],
    method: 'GET',
    path: '/harbours/:harbour/boats',
    operationId: 'sortBoats',
    tag: 'boats',
    answer: Type.Object({ boats: Type.Array(Type.Unknown()), by: Type.String() }, { title: 'Boats' }),
    view: ({ boats }, { args, caller }) => ({ boats, by: `${caller.uid} ${args.harbour}` }),
    headers: (_, place) => ({ location: `${place}/1` }),
  },
  cli: [
    {
      positional: ['harbour'],
      options: {
        berth_no: ['number', 'a berth; default: any'],
        'filter.kind': ['kind', 'of this kind alone'],
        wet: 'in the water',
      },
      example: 'flotilla boats sort kiel',
      render: ({ boats }) => ['One line.', tableOf(boats, { boat: ({ name }) => name })],
      exit: ({ refused }) => refused,
    },
  ],
})

async function typed(...words: string[]) {
  const ran: { args: unknown; text: string }[] = []
  const cli = {
    async run(action: Action, args: never, printing: Printing<unknown>) {
      const result = await action.run({} as never, args)
      ran.push({ args, text: layOut(printing.render(result, unlimited)) })
      return result
    },
    exitCode: 0,
  } as unknown as Cli
  const program = new Program('flotilla').exitOverride().configureOutput({ writeErr() {} })
  mountCommands(program.command('boats'), cli, [sortBoats])
  for (const command of program.commands) for (const verb of command.commands) verb.exitOverride()
  await program.parseAsync(['boats', 'sort', ...words], { from: 'user' })
  return { ...ran[0]!, code: cli.exitCode }
}

test('a command reads what the schema says, and lays out data that nobody can act through', async () => {
  const { args, text, code } = await typed('kiel', '--berth-no', '7', '--kind', 'row', '--wet')
  expect(args).toEqual({ harbour: 'kiel', berth_no: 7, filter: { kind: 'row' }, wet: true })
  expect(text.split('\n').map((one) => one.trimEnd())).toEqual(['One line.', 'boat', 'a\\x1b[2Jb\\nkiel'])
  expect(code).toBe(1)
  expect((await typed('kiel', '--berth-no', 'default')).args).toEqual({ harbour: 'kiel', berth_no: null })
  for (const wrong of [
    [],
    ['kiel', '--berth-no', 'x'],
    ['kiel', '--kind', 'steam'],
    ['kiel', '--limit', '2'],
  ])
    await expect(typed(...wrong)).rejects.toThrow()
})

test('parts of an answer are separated, lines are not', () => {
  expect(layOut(['a', 'b', { fields: { n: 1 } }, { documents: [{ n: 1 }] }])).toBe(
    'a\nb\nn  1\n\n{\n  "n": 1\n}',
  )
})

test('a route takes its arguments from the path and the query, and answers in the form of its interface', async () => {
  const app = fastify().setValidatorCompiler(createValidator)
  onTestFinished(() => app.close())
  app.decorateRequest('caller', null)
  app.addHook('onRequest', async (request) => {
    request.caller = { kind: 'agent', uid: 'agent_1', access: 'member' } as never
  })
  app.setErrorHandler((error, _, reply) => reply.code(422).send({ code: (error as { code?: string }).code }))
  await app.register(async (scope) => {
    wrapAnswers(scope, envelope)
    const engines = { relational: {} }
    mountRoutes(scope, { context: { engines, env: { FLOTILLA_HOME: '/' } } } as unknown as MainApi, [
      sortBoats,
    ])
  })
  const answer = await app.inject('/harbours/kiel/boats?limit=2')
  expect([answer.statusCode, answer.headers.location]).toEqual([200, '/harbours/kiel/boats/1'])
  expect(answer.json()).toMatchObject({ ok: true, data: { by: 'agent_1 kiel' } })
  expect(asked.at(-1)).toEqual({ harbour: 'kiel', limit: 2 })
  for (const query of ['limit=6', 'limit=x', 'limit=0'])
    expect((await app.inject(`/harbours/kiel/boats?${query}`)).statusCode, query).toBe(422)
})

test('what changes nothing is noted nowhere, and a trial neither', async () => {
  const noted: unknown[] = []
  const context = { platform: { engines: { relational: { ping: async () => noted.push('ping') } } } } as never
  const tried = defineAction({
    name: 'boats sink',
    summary: 'Sink boats',
    args: Type.Object({ dry: Type.Boolean() }),
    change: { action: 'boat.sink', target: () => 'boat', isTrial: ({ dry }) => dry },
    async run({ note }, { dry }) {
      await note({} as never)
      return { dry }
    },
  })
  expect(await tried.run(context, { dry: true })).toEqual({ dry: true })
  expect(noted).toEqual([])
  expect(tried.action).toBe('boat.sink')
  expect(sortBoats.action).toBeUndefined()
})

test('every action has a door, a name of its own, and its role in the table', () => {
  expect(actions.filter(({ http, cli }) => !http && !cli)).toEqual([])
  expect(new Set(actions.map(({ name }) => name)).size).toBe(actions.length)
  for (const { http } of actions) if (http) expect(rbac[`${http.method} /api/v1${http.path}`]).toBe(http.role)
})
