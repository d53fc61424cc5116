/** What the library gives to the process of a platform, and how it reads that process's output. */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'

const linesKept = 50

export type Environment = Record<string, string | undefined>

/** `run/addresses.json` below the data directory. */
export interface AddressFile {
  vector_url: string
  hub_url: string
  agent_gateway_url: string
  webhook_url: string
  base_url: string
  identity_exchange_url: string
  pid: number
}

/** The ports of a platform that ran, so that clients find it again. */
export function portsOf(file: AddressFile): Environment {
  return {
    VECTOR_GATEWAY_PORT: new URL(file.vector_url).port,
    HUB_PORT: new URL(file.hub_url).port,
    RUN_GATEWAY_PORT: new URL(file.agent_gateway_url).port,
    WEBHOOK_GATEWAY: file.webhook_url,
    MAIN_API_PORT: new URL(file.base_url).port,
  }
}

export const defaultSettings: Environment = {
  VECTOR_GATEWAY_PORT: '0',
  HUB_PORT: '0',
  RUN_GATEWAY_PORT: '0',
  WEBHOOK_GATEWAY: '127.0.0.1:0',
  MAIN_API_PORT: '0',
  NODES_PORT: '0',
  OPS_PORT: '0',
  LOG_LEVEL: 'warn',
}

/** Paths, user, locale, proxies and certificates; npm's settings, because npm may fetch the Node that the platform needs. */
const passed =
  /^(PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TZ|TMPDIR|TMP|TEMP|XDG_CACHE_HOME|(HTTPS?|NO|ALL)_PROXY|NODE_EXTRA_CA_CERTS|NODE_USE_ENV_PROXY|SSL_CERT_(FILE|DIR)|NPM_CONFIG_\w+|SYSTEMROOT|COMSPEC|PATHEXT|USERPROFILE|APPDATA|LOCALAPPDATA)$/i

export function passedOn(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name]) => passed.test(name)))
}

/** This process may end while the platform runs. */
export function release(child: ChildProcess): void {
  child.unref()
  child.channel?.unref()
  for (const stream of [child.stdout, child.stderr]) (stream as Socket).unref()
}

export interface Lines {
  /** Resolves when the platform says that it is ready. */
  ready: Promise<void>
  /** Resolves when there are no more. */
  end: Promise<unknown>
  /** Lines of the platform's own that are no log. */
  words(): string
  last(): string
}

export function keepLines(child: ChildProcess, onLine?: (line: string) => void): Lines {
  const kept: string[] = []
  const errors = createInterface({ input: child.stderr! })
  errors.on('line', (line) => {
    kept.push(line)
    if (kept.length > linesKept) kept.shift()
    onLine?.(line)
  })
  const ready = new Promise<void>((resolve) => {
    createInterface({ input: child.stdout! }).on('line', (line) => {
      if (line === 'ready') resolve()
    })
  })
  const isLog = (line: string) => line.startsWith('{')
  return {
    ready,
    end: once(errors, 'close'),
    words: () => kept.filter((line) => !isLog(line)).join('\n'),
    last() {
      const log = kept.filter(isLog)
      return log.length === 0 ? '' : `\nThe last lines of its log:\n${log.join('\n')}`
    },
  }
}

/** The command line prints a fault as `code: message`. */
export function faultOf(text: string, otherwise: string): { code: string; message: string } {
  const [, code = otherwise, message = text] = /^([a-z_]+): ([\s\S]*)$/.exec(text.trim()) ?? []
  return { code, message }
}

/** With --json a result is a document, and so is a fault; undefined where there is none. */
export function documentIn(stdout: string): { error?: { code: string; message: string } } | undefined {
  try {
    return JSON.parse(stdout)
  } catch {
    return undefined
  }
}

export function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended by itself.
  }
}
