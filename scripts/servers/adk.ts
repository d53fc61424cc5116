/** Starts the real api_server of Google ADK for Python, with agents that follow a script instead of a model. */

import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort, removeAtEnd, type ServerChild, startChild, untilReady } from './children.ts'
import { installAdk } from './tools.ts'

/** On a busy machine it was seen to need half a minute. */
const readyMs = 120_000
const scriptedFolder = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'test', 'data', 'adk')

/** The agents of test/data/adk/scripted.py. */
export const adkAgents = [
  'two',
  'echo',
  'other',
  'caller',
  'concludes',
  'pieces',
  'raises',
  'raises_at_once',
  'says_error',
  'says_nothing',
  'slow',
  'state',
] as const

/** Those of test/data/adk/asking.py. */
export const askingAgents = ['pays', 'files', 'sends', 'books'] as const

export interface AdkServer {
  readonly url: string
  /** Names of the files that agents left: `canceled-<session>`; for a call of a tool `paid-<session>-<random>`. */
  marks(): string[]
  /** kill -9. */
  kill9(): Promise<void>
  /** On the same port, without the sessions that it had. */
  start(): Promise<void>
  close(): Promise<void>
}

/** Needs Python and pip; the first call fetches some fifty packages. */
export async function openAdkServer(): Promise<AdkServer> {
  const packages = await installAdk()
  const folder = mkdtempSync(join(tmpdir(), 'fl-adk-'))
  removeAtEnd(folder)
  const agents = join(folder, 'agents')
  const marks = join(folder, 'marks')
  mkdirSync(marks)
  for (const name of adkAgents) writeAgent(join(agents, name), scripted(name))
  for (const name of askingAgents) writeAgent(join(agents, name), asking(name))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  // In memory: otherwise it writes its sessions next to the agents.
  const memory = ['--session_service_uri', 'memory://', '--artifact_service_uri', 'memory://']
  const args = [
    '-m',
    'google.adk.cli',
    'api_server',
    '--host',
    '127.0.0.1',
    '--port',
    String(port),
    ...memory,
    agents,
  ]
  const env = {
    PYTHONPATH: `${packages}:${scriptedFolder}`,
    PYTHONDONTWRITEBYTECODE: '1',
    SCRIPTED_MARKS: marks,
    HOME: folder,
  }
  let child: ServerChild
  async function start(): Promise<void> {
    child = startChild('python3', args, { logFile: join(folder, 'server.log'), cwd: folder, env })
    await untilReady('the api_server of ADK', child, () => answers(url), readyMs)
  }
  await start()
  const kill9 = () => child.kill('SIGKILL')
  return { url, marks: () => readdirSync(marks), kill9, start, close: kill9 }
}

const scripted = (name: string) => `from scripted import Scripted\n\nroot_agent = Scripted(name="${name}")\n`
const asking = (name: string) => `from asking import asking\n\nroot_agent = asking("${name}")\n`

function writeAgent(folder: string, source: string): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, '__init__.py'), 'from . import agent\n')
  writeFileSync(join(folder, 'agent.py'), source)
}

async function answers(url: string): Promise<boolean> {
  return (await fetch(`${url}/health`, { signal: AbortSignal.timeout(2_000) })).ok
}
