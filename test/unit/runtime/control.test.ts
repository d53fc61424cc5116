/** The control socket: who may open it, what travels, how a command ends. */

import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { AppError } from '#lib/errors.ts'
import {
  type ControlHandler,
  ControlUnreachable,
  callControl,
  findControlSocket,
  openControlServer,
} from '#runtime/control.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary.ts'

const silent = { item: () => {}, progress: () => {} }

async function serve(home: string, handle: ControlHandler): Promise<string> {
  const server = await openControlServer(home, handle)
  onTestFinished(() => server.close())
  return findControlSocket(home)!
}

describe('the control socket', () => {
  it('carries a request, its items and its result', async () => {
    const socket = await serve(temporaryFolder(), async ({ command, args }, output) => {
      output.item({ n: 1 })
      output.progress({ label: 'l', done: 1, total: 2 })
      return { command, args }
    })
    const items: unknown[] = []
    const output = {
      item: (value: unknown) => items.push(value),
      progress: (value: unknown) => items.push(value),
    }
    const result = await callControl(socket, { command: 'lag', args: { text: 'line\nbreak' } }, output)
    expect(result).toEqual({ command: 'lag', args: { text: 'line\nbreak' } })
    expect(items).toEqual([{ n: 1 }, { label: 'l', done: 1, total: 2 }])
  })

  it('gives faults back with their codes', async () => {
    const socket = await serve(temporaryFolder(), async () => {
      throw new AppError('group_active', 'it has members')
    })
    await expect(callControl(socket, { command: 'x', args: {} }, silent)).rejects.toMatchObject({
      code: 'group_active',
      message: 'it has members',
    })
  })

  it('belongs to this user alone and leaves nothing behind', async () => {
    const home = temporaryFolder()
    const server = await openControlServer(home, async () => null)
    const socket = findControlSocket(home)!
    expect(statSync(socket).mode & 0o777).toBe(0o600)
    await server.close()
    expect(findControlSocket(home)).toBeNull()
    expect(statSync(socket, { throwIfNoEntry: false })).toBeUndefined()
  })

  it('takes a short path where the data directory lies too deep for a socket', async () => {
    const home = join(temporaryFolder(), 'd'.repeat(60), 'e'.repeat(60))
    mkdirSync(home, { recursive: true })
    const socket = await serve(home, async () => 'here')
    expect(socket.startsWith(home)).toBe(false)
    expect(JSON.parse(readFileSync(join(home, 'run', 'control.json'), 'utf8'))).toMatchObject({ socket })
    expect(await callControl(socket, { command: 'x', args: {} }, silent)).toBe('here')
  })

  it('ends a command whose caller gave up', async () => {
    let ended = false
    const socket = await serve(temporaryFolder(), (_request, _output, signal) => {
      return new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          ended = true
          resolve(null)
        })
      })
    })
    const giveUp = new AbortController()
    const call = callControl(socket, { command: 'x', args: {} }, silent, giveUp.signal)
    call.catch(() => {})
    setTimeout(() => giveUp.abort(), 30)
    await expect(call).rejects.toMatchObject({ code: 'shutting_down' })
    await eventually('the command ended', () => ended)
  })

  it('tells a caller apart that reaches nobody: its command may run elsewhere', async () => {
    const home = temporaryFolder()
    const call = callControl(join(home, 'gone.sock'), { command: 'x', args: {} }, silent)
    await expect(call).rejects.toBeInstanceOf(ControlUnreachable)
  })

  it('forgets the socket of a process that was killed', async () => {
    const home = temporaryFolder()
    expect(findControlSocket(home)).toBeNull()
    const ended = spawnSync(process.execPath, ['-e', '']).pid
    mkdirSync(join(home, 'run'))
    writeFileSync(join(home, 'run', 'control.json'), JSON.stringify({ socket: '/none', pid: ended }))
    expect(findControlSocket(home)).toBeNull()
  })
})
