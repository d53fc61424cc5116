/** Collections over kill -9: made, written, deleted and made again under load, and none of the dead comes back. */

import { expect, onTestFinished, test } from 'vitest'
import { createClient } from '#client/client.ts'
import { runFlotilla, startFlotilla } from '../support/flotilla-process.ts'
import { axisVector } from '../support/points.ts'
import { temporaryFolder } from '../support/temporary.ts'

const kills = 4
const written = 400

test('acknowledged changes of collections count after each kill, also in the midst of a deletion', async () => {
  const home = temporaryFolder()
  let platform = await startFlotilla(home)
  const made = await runFlotilla(
    [
      'agents',
      'provision',
      '--agent-id',
      'keeper',
      '--access',
      'admin',
      '--tier',
      'infra-architect',
      '--json',
    ],
    { FLOTILLA_HOME: home },
  )
  const { private_key_file: privateKeyFile } = JSON.parse(made.stdout) as { private_key_file: string }
  for (let kill = 0; kill < kills; kill++) {
    const vectorUrl = platform.addresses.vector_url
    const client = createClient({ vectorUrl, agentId: 'keeper', privateKeyFile })
    const { memory } = client
    if (kill === 0) {
      await memory.collections.create('kept')
      await memory.remember('kept', [{ id: 'stays', text: 'The lighthouse is repaired' }])
    }
    await memory.collections.create('again')
    const points = Array.from({ length: written }, (_, n) => ({ id: `p${n}`, vector: axisVector(n) }))
    await memory.upsert('again', points, { wait: true })
    // On its way while the collection is deleted, and while the platform is killed.
    const late = memory.upsert('again', points).catch(() => undefined)
    await memory.collections.delete('again')
    const next = memory.collections.create('again').catch(() => undefined)
    platform.child.kill('SIGKILL')
    await Promise.all([platform.finished, late, next])
    await client.close()
    platform = await startFlotilla(home)
    const after = createClient({
      vectorUrl: platform.addresses.vector_url,
      agentId: 'keeper',
      privateKeyFile,
    })
    onTestFinished(() => after.close())
    expect(await after.memory.count('kept')).toBe(1)
    const names = (await after.memory.collections.list()).map(({ name }) => name)
    if (names.includes('again')) {
      expect(await after.memory.count('again')).toBe(0)
      await after.memory.collections.delete('again')
    } else {
      await expect(after.memory.count('again')).rejects.toMatchObject({ code: 'collection_not_found' })
    }
  }
}, 300_000)
