/** `flotilla rebuild embeddings`: command and platform are killed in its midst, and it ends when it is run again. */

import { expect, onTestFinished, test } from 'vitest'
import { createClient } from '#client/client.ts'
import { openEmbeddingsServer } from '../support/embeddings-server.ts'
import { eventually } from '../support/eventually.ts'
import { runFlotilla, spawnFlotilla, startFlotilla } from '../support/flotilla-process.ts'
import { call } from '../support/gateway-call.ts'
import { temporaryFolder } from '../support/temporary.ts'

const count = 3_000
const textOf = (n: number) => `the text of number ${n}`

test('vectors of texts are all made again, although everything was killed while they were', async () => {
  const server = await openEmbeddingsServer()
  onTestFinished(() => server.close())
  const home = temporaryFolder()
  const variables = (model: string) => ({ EMBEDDINGS_URL: server.url, EMBEDDINGS_MODEL: model })
  const command = (model: string) => ({ FLOTILLA_HOME: home, ...variables(model) })

  const before = await startFlotilla(home, { env: variables('m1') })
  const made = await runFlotilla(['agents', 'provision', '--agent-id', 'scout', '--json'], command('m1'))
  const { private_key_file } = JSON.parse(made.stdout) as { private_key_file: string }
  const connect = (vectorUrl: string) =>
    createClient({ vectorUrl, agentId: 'scout', privateKeyFile: private_key_file })
  const first = connect(before.addresses.vector_url)
  const key = await first.apiKey()
  for (let from = 0; from < count; from += 500) {
    const points = Array.from({ length: 500 }, (_, n) => ({ id: `p${from + n}`, text: textOf(from + n) }))
    const body = { collection: 'posts', points }
    const { status } = await call(before.addresses.vector_url, '/v1/vectors/upsert?wait=true', { key, body })
    expect([200, 202]).toContain(status)
  }
  await first.close()
  before.child.kill('SIGKILL')
  await before.finished

  const during = await startFlotilla(home, { env: variables('m2') })
  server.requests.length = 0
  const rebuild = spawnFlotilla(['rebuild', 'embeddings'], command('m2'))
  const texts = () => server.requests.reduce((sum, { input }) => sum + input.length, 0)
  await eventually('some vectors are made again', () => texts() > 500, 60_000)
  rebuild.child.kill('SIGKILL')
  during.child.kill('SIGKILL')
  await Promise.all([rebuild.finished, during.finished])

  const after = await startFlotilla(home, { env: variables('m2') })
  const { code, stderr, stdout } = await runFlotilla(['rebuild', 'embeddings', '--json'], command('m2'))
  expect(`${code} ${stderr}`, stdout).toBe('0 ')
  const client = connect(after.addresses.vector_url)
  const again = await client.apiKey()
  for (const n of [0, 499, 1_500, count - 1]) {
    const body = { collection: 'posts', text: textOf(n), limit: 1 }
    const { json } = await call(after.addresses.vector_url, '/v1/vectors/search', { key: again, body })
    expect(json.warnings).toBeUndefined()
    expect(json.results).toMatchObject([{ id: `p${n}`, score: expect.closeTo(1, 3) }])
  }
  const doctor = await runFlotilla(['doctor', '--json'], command('m2'))
  expect(doctor.stdout).toContain('generation 2 is live')
  expect(doctor.stdout).not.toContain('vectors of posts')
  await client.close()
}, 300_000)
