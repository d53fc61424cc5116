/** Answers of every interface while the database refuses changes with an SQLSTATE that means "later". */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { type InterfaceWrites, prepareWrites } from '../support/interface-writes.ts'
import { openRunsPlatform, type RunsPlatform } from '../support/runs-platform.ts'

vi.setConfig({ testTimeout: 120_000 })

const folder = mkdtempSync(join(tmpdir(), 'fl-'))
const targetsFile = join(folder, 'targets.yaml')
let platform: RunsPlatform
let writes: InterfaceWrites['all']

beforeAll(async () => {
  writeFileSync(targetsFile, 'targets: {}\n')
  platform = await openRunsPlatform({ WEBHOOK_TARGETS_FILE: targetsFile })
  writes = (await prepareWrites(platform)).all
  await refuseWrites()
})
afterEach(() => fail(''))
afterAll(async () => {
  await platform?.close()
  rmSync(folder, { recursive: true, force: true })
})

/** From then on each change of a row fails with the SQLSTATE in force: raised by the engine itself. */
async function refuseWrites(): Promise<void> {
  const { relational } = platform.platform.engines
  await relational.query(`create function public.fail() returns trigger language plpgsql as $$
    begin
      if coalesce(current_setting('failing.state', true), '') <> '' then
        raise exception 'could not extend file: No space left on device'
          using errcode = current_setting('failing.state');
      end if;
      return null;
    end $$`)
  const { rows } = await relational.query<{ name: string }>(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
      where table_schema = 'platform' and table_type = 'BASE TABLE'`,
  )
  for (const { name } of rows) {
    await relational.query(
      `create trigger failing before insert or update or delete on ${name} execute function public.fail()`,
    )
  }
}

/** The embedded engine has one session. */
async function fail(state: string): Promise<void> {
  await platform.platform.engines.relational.query(`select set_config('failing.state', '${state}', false)`)
}

const states = ['53100', '53200', '58030', '57P03', '40001', '40P01', '57014', '55P03']

test.each(states)('SQLSTATE %s is 503 with a time to wait, at every interface', async (state) => {
  await fail(state)
  const answers: unknown[] = []
  for (const [what, write] of writes) {
    const { status, json } = await write()
    answers.push([what, status, json.code, json.retryAfter])
  }
  expect(answers).toEqual(
    writes.map(([what]) => [what, 503, 'relational_engine_unavailable', expect.any(Number)]),
  )
  await fail('')
  for (const [what, write] of writes)
    expect([what, (await write()).status]).toEqual([what, expect.toSatisfy(isDone)])
})

const isDone = (status: number) => status >= 200 && status < 300

test('the relay answers 503 for a target that cannot get a partition while the disk is full', async () => {
  await fail('53100')
  writeFileSync(targetsFile, 'targets:\n  late:\n    url: http://127.0.0.1:9/\n')
  const fire = () =>
    call(platform.addresses.webhook_url!, '/api/v1/webhooks/fire?targets=late', {
      body: { agent: 'whale', task_id: '1', event: 'task.completed', result: { n: 1 }, ts: 1_750_000_000 },
    })
  await eventually('the relay knows the target', async () => (await fire()).status !== 400)
  const { status, json } = await fire()
  expect([status, json.code, json.retryAfter]).toEqual([
    503,
    'relational_engine_unavailable',
    expect.any(Number),
  ])
  await fail('')
  await eventually('it is accepted', async () => (await fire()).status === 202)
})
