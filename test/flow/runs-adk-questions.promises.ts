/** Agents of the real Google ADK that ask, and get their answers through the run gateway. */

import { describe, expect, test } from 'vitest'
import type { Client, Part, RunAnswer } from '#client/client.ts'
import { answerRunOperation } from '#operations/runs.ts'
import type { Platform } from '#runtime/start/platform.ts'
import type { AdkServer } from '../../scripts/servers/adk.ts'
import { eventually } from '../support/eventually.ts'

interface World {
  adk: AdkServer
  client: Client
  platform: Platform
}

let sessions = 0

/** `world` is asked once the tests run. */
export function describeQuestionsOfAdk(world: () => World): void {
  describe('agents that ask', () => {
    async function ask(agent: string, text: string) {
      const sessionId = `asks-${++sessions}`
      const answer = await world().client.runs.run(agent, text, { sessionId })
      return { ...answer, sessionId }
    }
    const input = (runId: string, answer: string | Part[]) => world().client.runs.input(runId, answer)
    /** Answers the only call of the question. */
    function respond({ run }: Pick<RunAnswer, 'run'>, response: Record<string, unknown>): Promise<RunAnswer> {
      expect(run.status).toBe('input_required')
      const { calls } = run.question!
      expect(calls).toHaveLength(1)
      return input(run.runId, [{ functionResponse: { id: calls[0]!.id, name: calls[0]!.name, response } }])
    }
    const texts = ({ events }: Pick<RunAnswer, 'events'>) =>
      events.flatMap(({ content }) => content?.parts.flatMap(({ text }) => text ?? []) ?? [])
    /** How often the tool has run. */
    const ran = (word: string, sessionId: string) =>
      world()
        .adk.marks()
        .filter((name) => name.startsWith(`${word}-${sessionId}-`)).length
    const kept = async (runId: string) => (await world().client.runs.get(runId)).status

    test('a tool that needs a confirmation runs once it is approved', async () => {
      const asked = await ask('pays', 'pay')
      expect(asked.run.question).toMatchObject({
        calls: [
          {
            name: 'adk_request_confirmation',
            args: {
              originalFunctionCall: { name: 'pay', args: { amount: 7 } },
              toolConfirmation: { confirmed: false },
            },
          },
        ],
        text: expect.stringContaining('approve or reject the tool call pay()'),
      })
      expect(asked.events).toHaveLength(3)
      expect(ran('paid', asked.sessionId)).toBe(0)
      const answered = await respond(asked, { confirmed: true })
      expect(answered.run).toMatchObject({ runId: asked.run.runId, status: 'completed', attempt: 2 })
      expect(texts(answered)).toEqual(['Paid 7.'])
      expect(ran('paid', asked.sessionId)).toBe(1)
    })

    test('one that is refused does not run', async () => {
      const asked = await ask('pays', 'pay')
      const answered = await respond(asked, { confirmed: false })
      expect(answered.run.status).toBe('completed')
      expect(texts(answered)).toEqual(['Not paid: This tool call is rejected.'])
      expect(ran('paid', asked.sessionId)).toBe(0)
    })

    test('asks for each of two calls, and messages of the session wait meanwhile', async () => {
      const asked = await ask('pays', 'pay twice')
      const behind = world().client.runs.run('pays', 'hello', { sessionId: asked.sessionId })
      const again = await respond(asked, { confirmed: true })
      expect(again.run.question).toMatchObject({
        calls: [{ args: { originalFunctionCall: { args: { amount: 8 } } } }],
      })
      expect(ran('paid', asked.sessionId)).toBe(1)
      const answered = await respond(again, { confirmed: true })
      expect([answered.run.status, answered.run.attempt, texts(answered)]).toEqual([
        'completed',
        3,
        ['Paid 8.'],
      ])
      expect(ran('paid', asked.sessionId)).toBe(2)
      expect(texts(await behind)).toEqual(['heard hello'])
    })

    test('of two approvals asked together one may be given later', async () => {
      const asked = await ask('pays', 'pay both')
      const [first, second] = asked.run.question!.calls
      const approve = ({ id, name }: { id: string; name: string }) =>
        input(asked.run.runId, [{ functionResponse: { id, name, response: { confirmed: true } } }])
      const again = await approve(second!)
      // Their order is not that of the calls.
      const { amount } = (second!.args as { originalFunctionCall: { args: { amount: number } } })
        .originalFunctionCall.args
      expect([again.run.status, again.run.question!.calls]).toEqual(['input_required', [first]])
      expect([texts(again), ran('paid', asked.sessionId)]).toEqual([[`Paid [${amount}].`], 1])
      const answered = await approve(first!)
      expect([answered.run.status, texts(answered).at(-1)]).toEqual(['completed', 'Paid [7, 8].'])
      expect(ran('paid', asked.sessionId)).toBe(2)
    })

    test('an operator approves and refuses by a word', async () => {
      for (const [approve, text] of [
        [true, 'Paid 7.'],
        [false, 'Not paid: This tool call is rejected.'],
      ] as const) {
        const { run, sessionId } = await ask('pays', 'pay')
        const context = {
          platform: world().platform,
          output: { item() {}, progress() {} },
          signal: new AbortController().signal,
          actor: { kind: 'command_line', id: 'tester' },
        } as const
        const { after } = await answerRunOperation.run(context, { id: run.runId, approve })
        await eventually('it ends', async () => (await kept(run.runId)) === 'completed')
        const said: string[] = []
        for await (const { content } of await world().client.runs.resume(run.runId, { after })) {
          said.push(...(content?.parts ?? []).flatMap(({ text }) => text ?? []))
        }
        expect([said, ran('paid', sessionId)]).toEqual([[text], approve ? 1 : 0])
      }
    })

    test.each([
      ['files', 'file', 'filed', 'It is filed, and waits.'],
      ['sends', 'send', 'sent', ''],
    ])('a long-running tool of %s gets its response later', async (agent, tool, word, said) => {
      const asked = await ask(agent, tool)
      expect(asked.run.question).toMatchObject({ calls: [{ name: tool, args: { title: 'x' } }], text: said })
      const answered = await respond(asked, { status: 'done' })
      expect([answered.run.status, texts(answered)]).toEqual(['completed', ['It is done.']])
      expect(ran(word, asked.sessionId)).toBe(1)
    })

    test('a long-running tool that is called twice asks twice; a text is an answer, too', async () => {
      const asked = await ask('files', 'file twice')
      const again = await respond(asked, { status: 'first' })
      expect(again.run.question!.calls).toMatchObject([{ name: 'file', args: { title: 'y' } }])
      expect(again.run.question!.calls[0]!.id).not.toBe(asked.run.question!.calls[0]!.id)
      const answered = await input(again.run.runId, 'never mind')
      expect([answered.run.status, texts(answered)]).toEqual(['completed', ['heard never mind']])
      expect(ran('filed', asked.sessionId)).toBe(2)
    })

    test('a request of input is answered by a text, or by its response', async () => {
      const first = await ask('books', 'book')
      expect(first.run.question).toMatchObject({ calls: [{ name: 'adk_request_input' }], text: 'Which day?' })
      expect(texts(await input(first.run.runId, 'Monday'))).toEqual(['heard Monday'])
      const second = await ask('books', 'book')
      expect(texts(await respond(second, { result: 'Monday' }))).toEqual(["Booked: {'result': 'Monday'}."])
    })

    test('a run that is canceled while it asks does nothing more, and its session goes on', async () => {
      const { run, sessionId } = await ask('pays', 'pay')
      await world().client.runs.cancel(run.runId)
      expect(await kept(run.runId)).toBe('canceled')
      await expect(input(run.runId, 'approve')).rejects.toMatchObject({ code: 'not_waiting' })
      expect(texts(await world().client.runs.run('pays', 'hello', { sessionId }))).toEqual(['heard hello'])
      expect(ran('paid', sessionId)).toBe(0)
    })
  })
}
