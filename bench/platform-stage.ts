/** The embedded platform in a process of its own, with bare routes over the same engines as the floor to compare with. */

import { type ChildProcess, fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '#client/client.ts'
import startEnvironment from '../bin/start-environment.json' with { type: 'json' }

interface StageAddresses {
  vectorUrl: string
  hubUrl: string
  runUrl: string
  /** As many as BENCH_CALLERS said, without limits. */
  callers: { agentId: string; privateKeyFile: string }[]
  floorUrl: string
  privateKeyFile: string
  agentId: string
  /** The key of an agent with limits. */
  meteredKeyFile: string
  meteredAgentId: string
}

export interface PlatformStage extends StageAddresses {
  /** A live gateway key of an agent without limits. */
  key: string
  /** One of an agent in the tier research-agent. */
  meteredKey: string
  /** Consumer lag of a group now, in records. */
  lag(group: string): Promise<number>
  /** Audit notes that searches find now. */
  notes(): Promise<number>
  close(): Promise<void>
}

/**
 * Starts bench/platform-process.ts and waits until it serves. Its data goes to a temporary folder. `without` names
 * services that do not run, `more` are further variables.
 */
export async function openPlatformStage(
  without: string[] = [],
  more: Record<string, string> = {},
): Promise<PlatformStage> {
  const home = mkdtempSync(join(tmpdir(), 'fl-bench-'))
  const child = fork(new URL('./platform-process.ts', import.meta.url), [home, ...without], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    // As `flotilla start` begins.
    env: { ...startEnvironment, ...process.env, ...more },
  })
  const addresses = await answerOf<StageAddresses>(child, 'serving')
  const key = await keyOf(addresses, addresses.agentId, addresses.privateKeyFile)
  const meteredKey = await keyOf(addresses, addresses.meteredAgentId, addresses.meteredKeyFile)
  return {
    ...addresses,
    key,
    meteredKey,
    async lag(group) {
      child.send({ kind: 'lag', group })
      return (await answerOf<{ lag: number }>(child, 'lag')).lag
    },
    async notes() {
      child.send({ kind: 'notes' })
      return (await answerOf<{ notes: number }>(child, 'notes')).notes
    },
    async close() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGTERM')
      await ended
      rmSync(home, { recursive: true, force: true })
    },
  }
}

export async function keyOf(
  { vectorUrl }: Pick<StageAddresses, 'vectorUrl'>,
  agentId: string,
  privateKeyFile: string,
): Promise<string> {
  const client = createClient({ vectorUrl, agentId, privateKeyFile })
  const key = await client.apiKey()
  await client.close()
  return key
}

function answerOf<T>(child: ChildProcess, kind: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const heard = (message: unknown) => {
      const answer = message as { kind: string } & T
      if (answer.kind !== kind) return
      child.off('message', heard)
      child.off('exit', died)
      resolve(answer)
    }
    const died = (code: number | null) => reject(new Error(`the platform's process ended with code ${code}`))
    child.on('message', heard)
    child.once('exit', died)
  })
}
