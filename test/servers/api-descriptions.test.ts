/** A linter finds no fault in the API descriptions, and the requests of the reference page work in a shell. */

import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operationsOf } from '#runtime/http/api/document.ts'
import { installOpenapiTools } from '../../scripts/servers/install.ts'
import {
  type DescribedFiles,
  openDescribedFiles,
  piped,
  run,
  timeoutMs,
} from '../support/api-clients/described-files.ts'
import { adminKey } from '../support/described-main-api.ts'

let world: DescribedFiles
beforeAll(async () => {
  world = await openDescribedFiles()
}, timeoutMs)
afterAll(() => world?.close())

/** `/<agent>/run` is the specification's, next to `/runs/{runId}`: a router prefers the literal path. */
const skipped = ['--skip-rule=no-ambiguous-paths']

test('the linter finds nothing, not even what it only warns of', async () => {
  const { folder } = world
  const tools = await installOpenapiTools()
  const files = world.interfaces.map(({ name }) => join(folder, `${name}.json`))
  const cli = join(tools, 'node_modules', '@redocly', 'cli', 'bin', 'cli.js')
  const { stdout, stderr } = await run(
    process.execPath,
    [cli, 'lint', '--format=json', ...skipped, ...files],
    {
      cwd: folder,
      timeout: timeoutMs,
      env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
    },
  ).catch((error: { stdout: string; stderr: string }) => error)
  const reports = stdout.match(/"totals": \{[^}]*\}/g) ?? []
  expect(reports.length, stderr).toBeGreaterThan(0)
  for (const report of reports) expect(report, stdout).toMatch(/"errors": 0,\s+"warnings": 0/)
})

test('every request of the reference page works when it is pasted into a shell', async () => {
  const { folder } = world
  const shellFolder = join(folder, 'shell')
  mkdirSync(join(shellFolder, '.flotilla', 'agents', 'whale'), { recursive: true })
  writeFileSync(join(shellFolder, '.flotilla', 'agents', 'whale', 'ed25519.pem'), world.privateKeyPem)
  const { home, engines } = world.platform.platform
  // Its reader is an admin: one of the requests deletes a collection.
  await engines.relational.query("update platform.agents set access = 'admin' where agent_id = 'whale'")
  copyFileSync(join(home, 'admin-password'), join(shellFolder, '.flotilla', 'admin-password'))
  const samples = world.interfaces.flatMap(({ document }) =>
    [...operationsOf(document)]
      .filter(([, , { responses }]) => responses[200]?.content?.['text/event-stream'] === undefined)
      .map(([, , operation]) => ({
        id: operation.operationId,
        source: operation['x-codeSamples']![0]!.source,
      })),
  )
  // A reader of the page begins with a key, a point and a collection, deletes it last, then the agent, and signs out.
  const last = ['deletePoints', 'updateAgent', 'rotateAgent', 'deleteAgent', 'signOut']
  const collection = ['createVectorCollection', 'createPayloadIndex']
  const first = ['verify', 'upsertPoints', 'tradeAgentKey', ...collection]
  const rank = ({ id }: { id: string }) => (first.includes(id) ? -1 : last.indexOf(id) + 1)
  samples.sort((a, b) => rank(a) - rank(b))
  const script = samples.flatMap(({ id, source }) => [
    `output=${join(shellFolder, id)}`,
    // As pasted: in this shell, so that later blocks see its exports.
    `{ ${source}\n} > "$output" || exit 1`,
    ...(id === 'upsertPoints'
      ? [
          `OPERATION_ID=$(sed 's/.*"operation_id":"\\([^"]*\\)".*/\\1/' "$output")`,
          `for n in $(seq 900); do curl -sS "${world.platform.vectorUrl}/v1/operations/$OPERATION_ID" ` +
            `-H "Authorization: Bearer $GATEWAY_API_KEY" | grep -q applied && break; sleep 0.1; done`,
        ]
      : []),
  ])
  const env = { ...process.env, AGENT_KEY: await adminKey(world.platform) }
  await piped('bash', ['-s'], script.join('\n'), env, shellFolder)
  const answers = samples.map(({ id }) => [
    id,
    JSON.parse(readFileSync(join(shellFolder, id), 'utf8')) as object,
  ])
  // No reference node asks, so the run that these answer is made up.
  const { answerRun, answerFleetRun, ...found } = Object.fromEntries(answers) as Record<
    string,
    Record<string, unknown>
  >
  for (const answer of [answerRun, answerFleetRun]) expect(answer).toMatchObject({ code: 'run_not_found' })
  for (const [id, answer] of Object.entries(found)) expect(answer, id).not.toHaveProperty('code')
  expect(found.getPoints).toMatchObject({ id: 'STIDX001-5f2d1c', payload: { status: 'active' } })
  expect(found.countPoints).toMatchObject({ count: 1 })
  expect(found.searchPoints).toMatchObject({ results: [{ id: 'STIDX001-5f2d1c' }] })
  expect(found.getOperation).toMatchObject({ status: 'applied' })
  // Faults of these have no `code` at the top.
  expect(found.getChatModel).toMatchObject({ id: 'WHALE' })
  expect(found.createChatCompletion).toMatchObject({ object: 'chat.completion' })
})
