/** A shell in a folder, as a user has one: blocks that end, and blocks that stay in the foreground. */

import { type ChildProcess, spawn } from 'node:child_process'
import { eventually } from './eventually.ts'

export interface Shell {
  /** Runs a block to its end, as if pasted into a shell; resolves with what it printed. Rejects when it fails. */
  run(block: string, options?: { seconds?: number }): Promise<string>
  /** Starts a block that stays in the foreground; resolves once its output matches. */
  leaveRunning(block: string, until: RegExp): Promise<{ output(): string; end(): Promise<void> }>
  /** Kills (-9) what still runs. */
  close(): Promise<void>
}

/** `env` is added to the few variables that a shell has anyway, and wins. A `uid` needs the rights of root. */
export function openShell(
  folder: string,
  env: Record<string, string>,
  { uid }: { uid?: number } = {},
): Shell {
  const { PATH = '', HOME = '' } = process.env
  const shells = new Set<ChildProcess>()

  function open(block: string): { child: ChildProcess; output(): string; ended: Promise<number | null> } {
    // A group of its own, so that ending it ends what it started, too.
    const child = spawn('sh', ['-eu', '-c', block], {
      cwd: folder,
      env: { PATH, HOME, ...env },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(uid === undefined ? {} : { uid, gid: uid }),
    })
    shells.add(child)
    let output = ''
    for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (chunk) => (output += chunk))
    const ended = new Promise<number | null>((resolve) => {
      child.on('close', (code) => {
        shells.delete(child)
        resolve(code)
      })
    })
    return { child, output: () => output, ended }
  }

  return {
    async run(block, { seconds = 300 } = {}) {
      const shell = open(block)
      const limit = setTimeout(() => endGroup(shell.child, 'SIGTERM'), seconds * 1000)
      const code = await shell.ended
      clearTimeout(limit)
      if (code !== 0) throw new Error(`exit code ${code} of\n${block}\n${shell.output()}`)
      return shell.output()
    },
    async leaveRunning(block, until) {
      const shell = open(block)
      await eventually(
        `${block} prints ${until}`,
        () => {
          if (shell.child.exitCode !== null) throw new Error(`it ended: ${shell.output()}`)
          return until.test(shell.output())
        },
        150_000,
      )
      return {
        output: shell.output,
        async end() {
          endGroup(shell.child, 'SIGTERM')
          await shell.ended
        },
      }
    },
    async close() {
      for (const child of shells) endGroup(child, 'SIGKILL')
    },
  }
}

function endGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(-child.pid!, signal)
  } catch {
    // It has ended by itself.
  }
}
