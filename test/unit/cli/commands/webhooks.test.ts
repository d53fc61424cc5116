/** The commands of webhooks that need no platform: checking a targets file, firing through HTTP. */

import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runCommand } from '../../../support/command-line.ts'
import { temporaryFolder } from '../../../support/temporary.ts'

function fileOf(lines: string[]): { path: string; home: string } {
  const home = temporaryFolder()
  const path = join(home, 'given.yaml')
  writeFileSync(path, `${lines.join('\n')}\n`)
  return { path, home: join(home, 'never-made') }
}

async function check(lines: string[], env: Record<string, string> = {}, more: string[] = []) {
  const { path, home } = fileOf(lines)
  return runCommand(['webhooks', 'check', path, ...more], { FLOTILLA_HOME: home, ...env })
}

const sound = [
  'targets:',
  '  audit-log:',
  `    url: https://audit.example/hook?token=\${TOKEN}`,
  '    headers:',
  `      X-Api-Key: \${TOKEN}`,
  '    retry: 5',
  '    backoff_ms: 100',
]

describe('flotilla webhooks check', () => {
  it('shows a sound file without its secrets', async () => {
    const { code, printed } = await check(sound, { TOKEN: 'very-secret-token' })
    expect([code, printed]).toEqual([
      0,
      expect.stringMatching(/audit-log.*audit\.example[\s\S]*is sound: 1 target\n$/),
    ])
    expect(printed).not.toContain('very-secret')
    const document = JSON.parse((await check(sound, { TOKEN: 'very-secret-token' }, ['--json'])).printed)
    expect(document).toMatchObject({
      ok: true,
      faults: [],
      warnings: [],
      targets: [{ target: 'audit-log', ordering: 'target', retry: 5, backoff_ms: 100, signed: false }],
    })
  })

  it('names every fault with its line, and the variable that is not set', async () => {
    const lines = [...sound, '    retries: 3', '  other:', '    url: http://elsewhere.example/']
    const { code, printed } = await check(lines)
    expect(code).toBe(1)
    expect(printed).toMatch(/has 4 faults:/)
    expect(printed).toMatch(/line 3: .*TOKEN/)
    expect(printed).toMatch(/line 5: .*TOKEN/)
    expect(printed).toMatch(/line 8: .*retr/)
    expect(printed).toMatch(/line 10: .*https/)
    const json = await check(lines, {}, ['--json'])
    expect(json.code).toBe(1)
    const { ok, faults } = JSON.parse(json.printed) as { ok: boolean; faults: { line: number }[] }
    expect([ok, faults.map(({ line }) => line)]).toEqual([false, [3, 5, 8, 10]])
  })

  it('refuses a file that is not a targets file', async () => {
    for (const lines of [['{{{'], ['- a'], ['targets: 7'], ['\u0000'], ['targets: {a: {url: *b}}']]) {
      const { code, printed } = await check(lines)
      expect([code, printed]).toEqual([1, expect.stringMatching(/has (a fault|\d+ faults):\nline \d/)])
    }
    const home = temporaryFolder()
    const { code, printed } = await runCommand(['webhooks', 'check'], { FLOTILLA_HOME: home })
    expect([code, printed]).toEqual([1, expect.stringContaining(join(home, 'targets.yaml'))])
  })

  it('warns of a back-off with which an ordered lane cannot keep up', async () => {
    const lines = (backoffMs: number, ordering = 'target') => [
      'targets:',
      '  slow:',
      '    url: https://slow.example/',
      `    backoff_ms: ${backoffMs}`,
      `    ordering: ${ordering}`,
    ]
    const warned = await check(lines(2_000))
    expect([warned.code, warned.printed]).toEqual([
      0,
      expect.stringMatching(/warning: slow: backoff_ms 2000: .*without end/),
    ])
    expect((await check(lines(50), {}, ['--call-ms', '5'])).printed).not.toContain('warning')
    expect((await check(lines(2_000), {}, ['--rate', '0.1'])).printed).not.toContain('warning')
    expect((await check(lines(2_000, 'agent'))).printed).not.toContain('warning')
  })
})

interface Sent {
  url: string
  body: Record<string, unknown>
}

/** A relay that answers each fire with this status and document. */
async function relay(status: number, document: object) {
  const sent: Sent[] = []
  /** The bodies as they came. */
  const texts: string[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    texts.push(text)
    sent.push({ url: request.url ?? '', body: JSON.parse(text) })
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, sent, texts }
}

describe('flotilla webhooks fire', () => {
  const answer = { idempotency_key: 'ATLAS-t-task.completed', deliveries: [{ target: 'a', sequence: 4 }] }

  it('sends what flags and file say, and the flags win', async () => {
    const { address, sent } = await relay(202, answer)
    const env = { FLOTILLA_HOME: temporaryFolder(), WEBHOOK_GATEWAY: address }
    const file = join(temporaryFolder(), 'event.json')
    writeFileSync(file, JSON.stringify({ event: 'task.failed', agent: 'ATLAS', task_id: 'x', ts: 7 }))
    const args = [
      'webhooks',
      'fire',
      '--file',
      file,
      '--task-id',
      't',
      '--result',
      '[1]',
      '--targets',
      'a, b',
    ]
    const { code, printed } = await runCommand([...args, '--json'], env)
    expect([code, JSON.parse(printed)]).toEqual([0, answer])
    expect(sent).toEqual([
      {
        url: '/api/v1/webhooks/fire?targets=a&targets=b',
        body: { event: 'task.failed', agent: 'ATLAS', task_id: 't', ts: 7, result: [1] },
      },
    ])
    expect((await runCommand(args, env)).printed).toMatch(/a\s+4/)
  })

  it('sends numbers that no double holds with their digits, from flags and files', async () => {
    const { address, texts } = await relay(202, answer)
    const env = { FLOTILLA_HOME: temporaryFolder(), WEBHOOK_GATEWAY: address }
    const file = join(temporaryFolder(), 'event.json')
    const result = '{"order":12345678901234567890,"huge":1e400}'
    writeFileSync(file, `{"event":"task.failed","agent":"A","task_id":"t","result":${result}}`)
    const flags = ['--event', 'task.failed', '--agent', 'A', '--task-id', 't', '--result', result]
    for (const given of [flags, ['--file', file]]) {
      expect((await runCommand(['webhooks', 'fire', ...given], env)).code).toBe(0)
      expect(texts.at(-1)).toContain(`"result":${result}`)
    }
  })

  it('says what the relay refused, field by field', async () => {
    const refused = {
      code: 'validation_failed',
      detail: 'The request is not valid.',
      errors: [{ path: '/agent', message: 'must be visible ASCII' }],
    }
    const { address } = await relay(422, refused)
    const env = { FLOTILLA_HOME: temporaryFolder(), WEBHOOK_GATEWAY: address }
    const args = ['webhooks', 'fire', '--event', 'task.failed', '--agent', 'ä', '--task-id', 't']
    const { code, printed } = await runCommand(args, env)
    expect(code).toBe(2)
    expect(printed).toContain('/agent: must be visible ASCII')
    const unknown = await relay(400, { code: 'unknown_target', detail: 'There is no target b.' })
    const json = await runCommand([...args, '--json'], { ...env, WEBHOOK_GATEWAY: unknown.address })
    expect([json.code, JSON.parse(json.printed)]).toEqual([
      1,
      { error: { code: 'unknown_target', message: 'There is no target b.' } },
    ])
  })

  it('says what to do where no relay runs', async () => {
    const env = { FLOTILLA_HOME: temporaryFolder(), WEBHOOK_GATEWAY: '127.0.0.1:9' }
    const args = ['webhooks', 'fire', '--event', 'task.failed', '--agent', 'A', '--task-id', 't']
    const { code, printed } = await runCommand(args, env)
    expect([code, printed]).toEqual([1, expect.stringContaining('npx flotilla start')])
  })
})
