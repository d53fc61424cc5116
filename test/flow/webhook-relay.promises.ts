/** Promises of the relay to those who fire events, and to operators. */

import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { AppError } from '#lib/errors.ts'
import type { FleetEvent, WebhookAttempt } from '#schemas/types.ts'
import { deleteAgent, provisionAgent } from '#services/access/agents/agents.ts'
import { fleetEvents, webhooksAttempts, webhooksDeliveries } from '#topics/catalog.ts'
import { deadLettersOf } from '#topics/dead-letters.ts'
import { eventually } from '../support/eventually.ts'
import { recordsOf } from '../support/log-reading.ts'
import { openRelayPlatform, type RelayPlatform } from '../support/relay-platform.ts'

const secret = 'a-very-secret-token'
const event = { event: 'task.completed', agent: 'WHALE', task_id: 't1', result: { n: 1 }, ts: 1_767_225_600 }

/** `environment` names empty engines. */
export function describeRelay(driver: string, environment: () => Promise<Record<string, string>>): void {
  let relay: RelayPlatform
  let listening: Server
  /** Accepts connections and says nothing; one port further is closed. */
  let reachable: string
  const targets = (more = '') => `targets:
  audit:
    url: ${reachable}
    headers:
      Authorization: Bearer \${TOKEN}
  failures:
    url: https://failures.invalid/hook
    events: [task.failed]
  pulses:
    url: http://127.0.0.1:1/nobody
    agents: [PULSE, Kraken]
  questions:
    url: http://127.0.0.1:1/nobody
    events: [task.input_required]
${more}`

  const deliveries = () => recordsOf(relay.platform, webhooksDeliveries)
  /** A busy machine may answer 503 for a moment: then the event is fired again. */
  const accepted = (event: () => unknown, query = '') =>
    eventually('an answer other than 503', async () => {
      const answer = await relay.fire(event(), query)
      return answer.status === 503 ? null : answer
    })
  /** Fires at a task of its own and gives the answer with the records that it left. */
  async function fired(change: object, query = '') {
    let taskId = ''
    const answer = await accepted(() => {
      taskId = `task-${Math.random().toString(36).slice(2)}`
      return { ...event, task_id: taskId, ...change }
    }, query)
    const records = (await deliveries()).filter(({ value }) => value!.task_id === taskId)
    return { answer, records, taskId }
  }

  describe(`the webhook relay on ${driver} engines`, () => {
    beforeAll(async () => {
      listening = createServer((socket) => socket.on('error', () => {}))
      await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
      reachable = `http://127.0.0.1:${(listening.address() as { port: number }).port}/hook`
      relay = await openRelayPlatform({
        targets: targets(),
        env: { HOST: '0.0.0.0', TOKEN: secret, ...(await environment()) },
      })
    }, 180_000)
    afterAll(async () => {
      await relay?.close()
      listening?.close()
    })

    it('stores a delivery for each target that wants the event, and answers with their sequences', async () => {
      const { answer, records, taskId } = await fired({ agent: 'PULSE', event: 'task.failed' })
      expect(answer.status).toBe(202)
      expect(answer.json.idempotency_key).toBe(`PULSE-${taskId}-task.failed`)
      const byTarget = new Map(records.map((record) => [record.key, record]))
      expect([...byTarget.keys()].sort()).toEqual(['audit', 'failures', 'pulses'])
      expect(answer.json.deliveries).toEqual(
        ['audit', 'failures', 'pulses'].map((target) => ({ target, sequence: byTarget.get(target)!.offset })),
      )
      expect(new Set(records.map(({ partition }) => partition)).size).toBe(3)
      expect(new Set(records.map(({ headers }) => headers['event-id'])).size).toBe(3)
      for (const { key, value, headers } of records) {
        expect(value).toMatchObject({ target: key, agent: 'PULSE', sequence: null, replay: false })
        expect(value!.webhook_id).toMatch(/^[0-9A-Z]{26}$/)
        expect(headers).toMatchObject({
          'request-id': answer.headers.get('x-request-id'),
          agent: 'PULSE',
          producer: 'flotilla',
        })
        expect(JSON.parse(value!.body.toString())).toMatchObject({
          ts: event.ts,
          idempotency_key: value!.idempotency_key,
        })
      }
      expect((await fired({})).answer.json.deliveries).toEqual([
        { target: 'audit', sequence: expect.any(Number) },
      ])
    })

    it('does not deduplicate: the same event again is a delivery of its own, with a later sequence', async () => {
      const { answer, taskId } = await fired({})
      const again = await accepted(() => ({ ...event, task_id: taskId }))
      const [first, second] = [answer, again].map(
        ({ json }) => (json.deliveries as { sequence: number }[])[0]!.sequence,
      )
      expect(second).toBeGreaterThan(first!)
    })

    it('delivers the body byte for byte', async () => {
      const text = `{ "event":"task.completed","agent":"BYTES", "task_id":"1","ts":1,
        "result": {"big": 123456789012345678901234567890, "u": "\\u00fc\\/"}, "idempotency_key":"BYTES-1-task.completed" }`
      expect((await accepted(() => text)).status).toBe(202)
      const found = (await deliveries()).find(({ value }) => value!.agent === 'BYTES')
      expect(found!.value!.body.toString()).toBe(text)
    })

    it('restricts delivery to named targets, and sends nothing when a name is unknown', async () => {
      expect(
        (await fired({ agent: 'PULSE' }, '?targets=pulses&targets=failures')).records.map(({ key }) => key),
      ).toEqual(['pulses'])
      expect((await fired({}, '?targets=failures')).answer.json.deliveries).toEqual([])
      for (const query of ['?targets=audit,nope', '?targets=audit&targets=nope']) {
        const { answer, records } = await fired({}, query)
        expect([answer.status, answer.json.code, records]).toEqual([400, 'unknown_target', []])
        expect(answer.json.detail).toContain('nope')
      }
      const empty = await fired({}, '?targets=')
      expect([empty.answer.status, empty.answer.json.code, empty.records]).toEqual([400, 'bad_request', []])
      expect((await fired({}, '?target=audit')).answer.status).toBe(422)
    })

    it('publishes nothing of what it refuses', async () => {
      const before = (await deliveries()).length
      const sent = async (body: unknown, headers = {}) => {
        const response = await fetch(`${relay.url}/api/v1/webhooks/fire`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: typeof body === 'string' ? body : JSON.stringify(body),
        })
        const { code } = (await response.json()) as { code: string }
        expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/)
        return [response.status, code]
      }
      expect(await sent('{"event":')).toEqual([400, 'invalid_json'])
      expect(await sent(event, { 'content-type': 'text/plain' })).toEqual([415, 'unsupported_media_type'])
      expect(await sent({ ...event, result: 'x'.repeat(256 * 1024) })).toEqual([413, 'payload_too_large'])
      expect(await sent({ ...event, extra: 1 })).toEqual([422, 'validation_failed'])
      expect(await sent({ ...event, event: 'task.input_required' })).toEqual([422, 'validation_failed'])
      expect(await sent({ ...event, idempotency_key: 'another' })).toEqual([422, 'validation_failed'])
      expect(await sent(event, { origin: 'https://evil.example' })).toEqual([403, 'forbidden'])
      expect((await deliveries()).length).toBe(before)
    })

    it('refuses an event that holds a secret, and shows the secret nowhere', async () => {
      for (const result of [
        secret,
        { [secret]: 1 },
        JSON.stringify({ deep: [secret] }),
        `svc_${'ab'.repeat(32)}`,
        ['-----BEGIN EC PRIVATE KEY-----'],
      ]) {
        const { answer, records } = await fired({ result })
        expect([answer.status, answer.json.code, records]).toEqual([422, 'secret_in_payload', []])
        expect(answer.json.errors).toMatchObject([{ path: '/result' }])
        expect(answer.text).not.toContain(secret)
      }
      expect(relay.lines.join('')).not.toContain(secret)
      for (const path of ['/health', '/metrics', '/api/v1/webhooks/openapi.json']) {
        expect((await relay.get(path)).text).not.toContain(secret)
      }
    })

    it('takes up a target that is added, and drops one that is removed', async () => {
      relay.writeTargets(targets(`  late:\n    url: ${reachable}\n    agents: [LATE]\n`))
      onTestFinished(() => relay.writeTargets(targets()))
      await eventually(
        'the target is there',
        async () => 'late' in ((await relay.get('/health')).json.targets as object),
      )
      expect((await fired({ agent: 'LATE' }, '?targets=late')).records).toHaveLength(1)
      await eventually('its series are there', async () =>
        (await relay.get('/metrics')).text.includes(
          'webhook_delivered_total{target="late",status="success"} 0',
        ),
      )
      relay.writeTargets('targets:\n  audit: {}\n')
      await eventually('the refusal', async () => (await relay.get('/health')).json.status === 'warn')
      expect((await fired({ agent: 'LATE' }, '?targets=late')).answer.status).toBe(202)
      relay.writeTargets(targets())
      await eventually(
        'the target is gone',
        async () => (await fired({}, '?targets=late')).answer.status === 400,
      )
      await eventually(
        'its series are gone',
        async () => !(await relay.get('/metrics')).text.includes('target="late"'),
      )
    })

    it('reports the targets: from probes, from attempts, and how much waits', async () => {
      const health = async () =>
        (await relay.get('/health')).json.targets as Record<string, Record<string, unknown>>
      const probed = await eventually('the first probes', async () => {
        const all = await health()
        return Object.values(all).every(({ checked_at }) => checked_at !== null) ? all : null
      })
      expect(probed.audit).toMatchObject({
        reachable: true,
        last_status: null,
        breaker: 'closed',
        head_age_s: null,
      })
      expect(probed.failures!.reachable).toBe(false)
      expect(probed.pulses!.reachable).toBe(false)
      const before = probed.pulses!.lag as number
      await fired({ agent: 'PULSE' })
      await eventually('the lag grows', async () => ((await health()).pulses!.lag as number) > before)

      const attempt = (change: Partial<WebhookAttempt>): WebhookAttempt => ({
        target: 'pulses',
        kind: 'retry',
        sequence: 0,
        attempt: 1,
        status: 500,
        fault: null,
        took_ms: 40,
        breaker: 'closed',
        lag: null,
        head_received_at: Date.now() - 60_000,
        next_attempt_at: Date.now() + 60_000,
        occurred_at: Date.now() + 60_000,
        ...change,
      })
      const attempts = [
        attempt({}),
        attempt({ status: null, fault: 'timeout', took_ms: 5_000 }),
        attempt({ kind: 'state', status: null, took_ms: null, breaker: 'open' }),
        attempt({ target: 'audit', kind: 'success', status: 204, took_ms: 7 }),
        attempt({ target: 'audit', kind: 'dead_letter', status: null, took_ms: null }),
        attempt({ target: 'nobody-knows', kind: 'success' }),
      ]
      for (const value of attempts) {
        await relay.platform.publisher.publish(webhooksAttempts, [{ key: value.target, value }])
      }
      const seen = await eventually('the attempts are seen', async () => {
        const all = await health()
        return all.pulses!.breaker === 'open' && all.audit!.last_status === 204 ? all : null
      })
      expect(seen.pulses).toMatchObject({ reachable: false, last_status: null, latency_ms: 5_000 })
      expect(seen.pulses!.head_age_s).toBeGreaterThan(59)
      expect(seen.pulses!.next_attempt_at).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
      expect(seen.audit).toMatchObject({ reachable: true, latency_ms: 7 })
      const lines = await eventually('both attempts are counted', async () => {
        const { text } = await relay.get('/metrics')
        return text.includes('webhook_delivered_total{target="audit",status="dead_letter"} 1')
          ? text.split('\n')
          : null
      })
      for (const line of [
        'webhook_delivered_total{target="pulses",status="retry"} 2',
        'webhook_delivered_total{target="pulses",status="success"} 0',
        'webhook_delivered_total{target="audit",status="success"} 1',
        'webhook_delivered_total{target="audit",status="dead_letter"} 1',
        'webhook_delivered_total{target="failures",status="dead_letter"} 0',
        'webhook_latency_seconds_count{target="pulses"} 2',
        'webhook_latency_seconds_bucket{le="10",target="pulses"} 2',
        'webhook_latency_seconds_count{target="audit"} 1',
      ]) {
        expect(lines).toContain(line)
      }
      expect(lines.filter((line) => line.includes('nobody-knows'))).toEqual([])
    })

    it('fires what arrives in fleet.events, and parks what it may not send', async () => {
      const value = (change: Partial<FleetEvent>): FleetEvent => ({
        event: 'agent.spawned',
        agent: 'PULSE',
        task_id: 'fleet-1',
        result: '{"big":12345678901234567890}',
        ts: 1,
        ...change,
      })
      const publish = (change: Partial<FleetEvent>, eventId: string) =>
        relay.platform.publisher.publish(fleetEvents, [{ key: 'PULSE', value: value(change), eventId }])
      await publish({}, 'fleet-event-1')
      await publish({ event: 'agent.exploded', task_id: 'odd' }, 'fleet-event-2')
      await publish({ result: 'no JSON', task_id: 'odd' }, 'fleet-event-3')
      await publish({ result: JSON.stringify({ token: secret }), task_id: 'odd' }, 'fleet-event-4')
      await publish({ event: 'task.input_required', task_id: 'run_1.2' }, 'fleet-event-5')
      await publish({ task_id: 'fleet-2' }, 'fleet-event-6')
      const found = await eventually('the deliveries', async () => {
        const all = (await deliveries()).filter(({ value: own }) => own!.event === 'agent.spawned')
        return all.filter(({ value: own }) => own!.task_id === 'fleet-2').length === 2 ? all : null
      })
      expect(found.map(({ key, value: own }) => `${key} ${own!.task_id}`).sort()).toEqual([
        'audit fleet-1',
        'audit fleet-2',
        'pulses fleet-1',
        'pulses fleet-2',
      ])
      // Only who lists it gets a question back.
      const asked = (await deliveries()).filter(({ value: own }) => own!.event === 'task.input_required')
      expect(asked.map(({ key, value: own }) => `${key} ${own!.idempotency_key}`)).toEqual([
        'questions PULSE-run_1.2-task.input_required',
      ])
      expect(found[0]!.value!.body.toString()).toContain('"result":{"big":12345678901234567890}')
      const letters = await eventually('the dead letters', async () => {
        const all = await recordsOf(relay.platform, deadLettersOf(fleetEvents))
        return all.length === 3 ? all : null
      })
      expect(letters.map(({ value: letter }) => letter!.reason.split(':')[0]).sort()).toEqual([
        'invalid_json',
        'secret_in_payload',
        'validation_failed',
      ])
      const kept = letters.map(({ value: letter }) => letter!.value!.toString('latin1'))
      expect(kept.join()).not.toContain(secret)
      expect(kept.some((text) => text.includes('{"token":"[cut]"}'))).toBe(true)
      expect(relay.lines.join('')).not.toContain(secret)
    })

    it('sends targets the event that an agent was deleted', async () => {
      const { relational } = relay.platform.engines
      await provisionAgent(relational, { agentId: 'Kraken' })
      await deleteAgent(relational, 'kraken')
      const found = await eventually('the deliveries', async () => {
        const all = (await deliveries()).filter(({ value }) => value!.agent === 'Kraken')
        return all.length === 2 ? all : null
      })
      expect(found.map(({ key }) => key).sort()).toEqual(['audit', 'pulses'])
      expect(found[0]!.value!.idempotency_key).toMatch(/^Kraken-[0-9A-Z]{26}-agent\.terminated$/)
    })

    it('answers 503 when one of the deliveries is not stored, and 202 again when the log is back', async () => {
      const { publisher } = relay.platform
      const { publish } = publisher
      let away = true
      // The publisher's method is generic, which one fake for all topics cannot be.
      publisher.publish = ((topic: { name: string }, messages: { key: string }[], options: object) => {
        const refused = away && topic.name === webhooksDeliveries.name && messages[0]!.key === 'pulses'
        if (refused) return Promise.reject(new AppError('log_unavailable', 'connect ECONNREFUSED 10.1.2.3'))
        return publish(topic as never, messages as never, options)
      }) as never
      onTestFinished(() => {
        publisher.publish = publish
      })
      const answer = await relay.fire({ ...event, agent: 'PULSE' })
      expect([answer.status, answer.json.code]).toEqual([503, 'log_unavailable'])
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
      expect(answer.text).not.toContain('ECONNREFUSED')
      expect(answer.json.deliveries).toBeUndefined()
      away = false
      expect((await fired({ agent: 'PULSE' })).answer.status).toBe(202)
    })

    it('needs no database for a target that it knows', async () => {
      const { relational } = relay.platform.engines
      const { query } = relational
      await fired({})
      relational.query = () => Promise.reject(new AppError('relational_engine_unavailable', 'away'))
      onTestFinished(() => {
        relational.query = query
      })
      expect((await fired({})).answer.status).toBe(202)
    })

    it.skipIf(process.platform !== 'linux')(
      'listens on 127.0.0.1 and ::1 alone, although HOST says more',
      () => {
        expect(relay.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
        const port = Number(new URL(relay.url).port).toString(16).padStart(4, '0').toUpperCase()
        const listening = ['tcp', 'tcp6'].flatMap((kind) =>
          readFileSync(`/proc/net/${kind}`, 'utf8')
            .split('\n')
            .map((line) => line.trim().split(/\s+/))
            .filter(([, local = '', , state]) => state === '0A' && local.endsWith(`:${port}`))
            .map(([, local = '']) => local.split(':')[0]),
        )
        // 127.0.0.1 and ::1, as the kernel writes them.
        expect(['0100007F', '00000000000000000000000001000000']).toEqual(expect.arrayContaining(listening))
        expect(listening).toContain('0100007F')
      },
    )

    it('describes itself, and says that it is alive and ready', async () => {
      const description = (await relay.get('/api/v1/webhooks/openapi.json')).json as {
        openapi: string
        paths: object
      }
      expect(description.openapi).toBe('3.1.0')
      expect(Object.keys(description.paths).sort()).toEqual(['/api/v1/webhooks/fire', '/health'])
      for (const path of ['/livez', '/readyz', '/api/v1/webhooks/reference/']) {
        expect((await relay.get(path)).status).toBe(200)
      }
      expect((await relay.get('/api/v1/webhooks/fire')).status).toBe(405)
    })
  })
}
