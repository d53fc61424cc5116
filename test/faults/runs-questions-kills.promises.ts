/** kill -9 of the processes that have the run gateway and the dispatcher, while a run asks and just after it was answered. */

import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createClient } from '#client/client.ts'
import { freePort } from '../../scripts/servers/children.ts'
import { confirmation, responseIn } from '../support/asking-scripts.ts'
import { createProcesses, type Processes, type ServiceProcess } from '../support/distributed-process.ts'
import { eventually } from '../support/eventually.ts'
import { type BareCall, call as bareCall } from '../support/gateway-call.ts'
import { lineOf, message, type TextEvent, talkOf } from '../support/runs-platform.ts'
import { openScriptedNode, type ScriptedNode, type ScriptedRun, type Step } from '../support/scripted-node.ts'
import { readSse } from '../support/sse-reader.ts'

/** Which process has which services. */
export interface QuestionProcesses {
  env: Record<string, string>
  gateway: readonly string[]
  /** Absent: the gateway's process has it, too. */
  dispatcher?: readonly string[]
}

/** Only ends a hang. */
const patienceMs = 120_000
const approval = {
  parts: [
    { functionResponse: { id: 'ask-1', name: 'adk_request_confirmation', response: { confirmed: true } } },
  ],
}

export function describeQuestionKills(engines: string, open: () => Promise<QuestionProcesses>): void {
  describe(`questions over kills of processes, on ${engines} engines`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'fl-'))
    let given: QuestionProcesses
    let node: ScriptedNode
    let processes: Processes
    let runUrl: string
    let key: string
    const running = new Map<'gateway' | 'dispatcher', ServiceProcess>()

    async function start(name: 'gateway' | 'dispatcher'): Promise<void> {
      const services = given[name]
      if (services) running.set(name, await processes.start([...services], { home: join(folder, name) }))
    }
    async function kill(name: 'gateway' | 'dispatcher'): Promise<void> {
      const one = running.get(name)
      running.delete(name)
      one?.child.kill('SIGKILL')
      await one?.finished
    }

    beforeAll(async () => {
      given = await open()
      node = await openScriptedNode({ whale: confirmation })
      const port = await freePort()
      runUrl = `http://127.0.0.1:${port}`
      const file = join(folder, 'nodes.yaml')
      writeFileSync(file, JSON.stringify({ nodes: { whale: { url: node.url } } }))
      processes = createProcesses({ ...given.env, RUN_NODES_FILE: file, RUN_GATEWAY_PORT: String(port) })
      await start('gateway')
      await start('dispatcher')
      const home = join(folder, 'gateway')
      const args = ['agents', 'provision', '--agent-id', 'ada', '--access', 'member']
      const { private_key_file: privateKeyFile } = await processes.run<{ private_key_file: string }>(
        args,
        home,
      )
      const { vectorUrl } = running.get('gateway')!
      const client = createClient({ agentId: 'ada', privateKeyFile, vectorUrl })
      key = await client.apiKey()
      await client.close()
    })
    afterAll(async () => {
      await processes?.close()
      await node?.close()
      rmSync(folder, { recursive: true, force: true })
    })

    const call = (path: string, more: BareCall = {}) => bareCall(runUrl, path, { key, ...more })
    const input = (runId: string, headers: Record<string, string> = {}) =>
      call(`/runs/${runId}/input`, { body: approval, headers })
    const shown = async (runId: string) => (await call(`/runs/${runId}`)).json
    const isAnswerIn =
      (sessionId: string) =>
      ({ sessionId: of, body }: ScriptedRun) =>
        of === sessionId && responseIn(body) !== undefined

    async function ask(sessionId: string): Promise<string> {
      const asked = await call('/whale/run', { body: { newMessage: message('pay'), sessionId } })
      expect([asked.status, asked.headers.get('x-run-status')]).toEqual([200, 'input_required'])
      return asked.headers.get('x-run-id') as string
    }
    const ended = (runId: string) =>
      eventually(
        'the run ends',
        async () => {
          const run = await shown(runId)
          return run.endedAt === null ? null : run
        },
        patienceMs,
      )
    /** Each event once and in order, the answer among them. */
    async function expectWhole(runId: string): Promise<void> {
      const stream = await readSse(`${runUrl}/runs/${runId}/events`, { key })
      await stream.over
      expect(stream.ids()).toEqual([1, 2, 3, 4, 5])
      const said = stream.frames.map(({ data }) => lineOf(data as TextEvent))
      expect(said).toEqual(['WHALE: ', 'WHALE: ', 'WHALE: ', 'user: ', 'WHALE: Paid.', 'gateway: '])
    }

    test('all are killed while a run asks: its question is there, and the same run goes on', async () => {
      const runId = await ask('while-it-asks')
      const before = await shown(runId)
      for (const name of ['gateway', 'dispatcher'] as const) await kill(name)
      for (const name of ['gateway', 'dispatcher'] as const) await start(name)
      expect(await shown(runId)).toEqual(before)
      const answer = await input(runId)
      expect([answer.status, answer.headers.get('x-run-id'), talkOf(answer)]).toEqual([
        200,
        runId,
        ['WHALE: Paid.'],
      ])
      expect(await shown(runId)).toMatchObject({ status: 'completed', attempt: 2, question: null })
      expect(node.runs.filter(isAnswerIn('while-it-asks'))).toHaveLength(1)
      await expectWhole(runId)
    })

    test('the dispatcher is killed once an answer was accepted: the run goes on, and the answer counts once', async () => {
      const sessionId = 'after-202'
      const runId = await ask(sessionId)
      // The killed one may have sent it to the node, which has shown nothing by then.
      node.scripts.set('whale', (run) =>
        node.runs.filter(isAnswerIn(sessionId)).length === 1 ? [{ hang: true }] : confirmation(run),
      )
      const headers = { 'idempotency-key': randomUUID() }
      const accepted = await input(runId, { ...headers, prefer: 'respond-async' })
      expect([accepted.status, accepted.json.runId]).toEqual([202, runId])
      const name = given.dispatcher ? 'dispatcher' : 'gateway'
      await kill(name)
      if (node.runs.filter(isAnswerIn(sessionId)).length === 0) node.scripts.set('whale', confirmation)
      await start(name)
      const again = await input(runId, { ...headers, prefer: 'respond-async' })
      expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([202, 'true'])
      expect((await ended(runId)).status).toBe('completed')
      node.scripts.set('whale', confirmation)
      const late = await input(runId)
      expect([late.status, late.json.code]).toEqual([409, 'not_waiting'])
      await expectWhole(runId)
    })

    test('the gateway is killed while a caller waits for the events: repeated under its key it gets them', async () => {
      const sessionId = 'caller-waits'
      const runId = await ask(sessionId)
      const gate = Promise.withResolvers<void>()
      node.scripts.set('whale', async function* (run) {
        await gate.promise
        yield* confirmation(run) as Iterable<Step>
      })
      const headers = { 'idempotency-key': randomUUID() }
      const waiting = await readSse(`${runUrl}/runs/${runId}/input`, { key, body: approval, headers })
      await eventually('the node has it', () => node.runs.some(isAnswerIn(sessionId)), patienceMs)
      await kill('gateway')
      expect([await waiting.over, waiting.frames]).toEqual([false, []])
      gate.resolve()
      node.scripts.set('whale', confirmation)
      await start('gateway')
      const again = await input(runId, headers)
      expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([200, 'true'])
      expect(talkOf(again)).toEqual(['WHALE: Paid.'])
      // With the gateway's process its dispatcher was killed, too: nothing was shown, so the node is asked again.
      expect(node.runs.filter(isAnswerIn(sessionId))).toHaveLength(given.dispatcher ? 1 : 2)
      await expectWhole(runId)
    })
  })
}
