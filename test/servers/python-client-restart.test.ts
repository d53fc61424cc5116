/** A program with the Python client goes on while the platform under it is killed in the middle of a stream and of upserts. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { type Addresses, startFlotilla } from '../support/flotilla-process.ts'
import { projectFolder } from '../support/pages.ts'
import { provisionRover, startPython } from '../support/python-client.ts'
import { openScriptedNode } from '../support/scripted-node.ts'
import { temporaryFolder } from '../support/temporary.ts'

vi.setConfig({ testTimeout: 600_000 })

/** The variables that give every interface the port that it had. */
function samePorts(addresses: Addresses): Record<string, string> {
  const port = (url: string) => new URL(url).port
  return {
    VECTOR_GATEWAY_PORT: port(addresses.vector_url),
    MAIN_API_PORT: port(addresses.base_url),
    HUB_PORT: port(addresses.hub_url),
    RUN_GATEWAY_PORT: port(addresses.agent_gateway_url),
    WEBHOOK_GATEWAY: new URL(addresses.webhook_url).host,
  }
}

it('repeats writes, starts a run that showed nothing again, and tells of one that did', async () => {
  const home = temporaryFolder()
  // A node of the test's own: it outlives the platform.
  const node = await openScriptedNode({
    talker: () => [{ text: 'first words' }, { hang: true }],
    thinker: ({ number }) => (number === 1 ? [{ hang: true }] : [{ text: 'thought' }]),
  })
  try {
    writeFileSync(
      join(home, 'nodes.yaml'),
      `nodes:\n  talker: {url: '${node.url}'}\n  thinker: {url: '${node.url}'}\n`,
    )
    const first = await startFlotilla(home)
    await provisionRover(home)
    const program = await startPython(join(projectFolder, 'test', 'support', 'python', 'restart.py'), {
      FLOTILLA_HOME: home,
    })
    const stored = () => program.printed().filter((line) => 'stored' in line).length
    await eventually('both agents are at work, and texts are stored', () => {
      const shown = program.printed().some(({ text }) => text === 'first words')
      return shown && node.runs.length === 2 && stored() > 2
    })
    first.child.kill('SIGKILL')
    await first.finished
    const storedBefore = stored()
    await startFlotilla(home, { env: samePorts(first.addresses) })
    expect(await program.finished, program.stderr()).toBe(0)

    const printed = program.printed()
    const of = (agent: string) => printed.filter((line) => line.agent === agent)
    expect(of('talker').slice(1)).toEqual([
      { agent: 'talker', text: 'first words' },
      { agent: 'talker', status: 'failed', code: 'node_lost', attempt: 1 },
    ])
    expect(of('thinker').slice(1)).toEqual([
      { agent: 'thinker', text: 'thought' },
      { agent: 'thinker', status: 'completed', code: null, attempt: 2 },
    ])
    expect(stored()).toBeGreaterThan(storedBefore)
    expect(printed.at(-1)).toEqual({ count: 20 * stored(), lost: [] })
  } finally {
    await node.close()
  }
})
