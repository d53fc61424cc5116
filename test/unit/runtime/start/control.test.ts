/** The control socket: who may open it, what it carries, how an operation ends. */

import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request as openRequest } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { AppError } from '#lib/errors.ts'
import {
  type ControlHandler,
  ControlUnreachable,
  callControl,
  findControlSocket,
  openControlServer,
} from '#runtime/start/control.ts'
import { eventually } from '../../../support/eventually.ts'
import { temporaryFolder } from '../../../support/temporary.ts'

const silent = { item: () => {}, progress: () => {} }

async function serve(home: string, handle: ControlHandler): Promise<string> {
  const server = await openControlServer(home, handle)
  onTestFinished(() => server.close())
  return findControlSocket(home)!
}

describe('the control socket', () => {
  it('carries a request, its items and its result', async () => {
    const socket = await serve(temporaryFolder(), async ({ operation, args }, output) => {
      output.item({ n: 1 })
      output.progress({ label: 'l', done: 1, total: 2 })
      return { operation, args }
    })
    const items: unknown[] = []
    const keep = (value: unknown) => void items.push(value)
    const output = { item: keep, progress: keep }
    const result = await callControl(socket, { operation: 'lag', args: { text: 'line\nbreak' } }, output)
    expect(result).toEqual({ operation: 'lag', args: { text: 'line\nbreak' } })
    expect(items).toEqual([{ n: 1 }, { label: 'l', done: 1, total: 2 }])
  })

  it('gives errors back with their codes and fields', async () => {
    const errors = [{ path: '/limit', message: 'a whole number from 1 to 100 (0 was sent)' }]
    const socket = await serve(temporaryFolder(), async () => {
      throw new AppError('group_active', 'it has members', { errors })
    })
    await expect(callControl(socket, { operation: 'x', args: {} }, silent)).rejects.toMatchObject({
      code: 'group_active',
      message: 'it has members',
      errors,
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

  it('takes a short path where the path of the data directory is too long for a socket', async () => {
    const home = join(temporaryFolder(), 'd'.repeat(60), 'e'.repeat(60))
    mkdirSync(home, { recursive: true })
    const socket = await serve(home, async () => 'here')
    expect(socket.startsWith(home)).toBe(false)
    expect(JSON.parse(readFileSync(join(home, 'run', 'control.json'), 'utf8'))).toMatchObject({ socket })
    expect(await callControl(socket, { operation: 'x', args: {} }, silent)).toBe('here')
  })

  it('ends an operation whose caller gave up', async () => {
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
    const call = callControl(socket, { operation: 'x', args: {} }, silent, giveUp.signal)
    call.catch(() => {})
    setTimeout(() => giveUp.abort(), 30)
    await expect(call).rejects.toMatchObject({ code: 'shutting_down' })
    await eventually('the operation ended', () => ended)
  })

  it('lets an operation wait for a reader that is behind, and ends it when the reader goes', async () => {
    const text = 'x'.repeat(100_000)
    let items = 0
    let ended = false
    const socket = await serve(temporaryFolder(), async (_request, output, signal) => {
      signal.addEventListener('abort', () => {
        ended = true
      })
      for (; items < 1_000; items++) await output.item(text)
    })
    const sent = openRequest({ socketPath: socket, method: 'POST', agent: false })
    sent.end(JSON.stringify({ operation: 'x', args: {} }))
    // Its answer begins, and nobody reads on.
    const response = await new Promise<IncomingMessage>((resolve) => sent.on('response', resolve))
    await eventually('nothing more is written', async () => {
      const before = items
      await new Promise((resolve) => setTimeout(resolve, 100))
      return items === before
    })
    expect(items).toBeLessThan(100)
    response.on('error', () => {}).destroy()
    await eventually('the operation ended', () => ended)
  })

  it('loses nothing on the way to a slow reader', async () => {
    const socket = await serve(temporaryFolder(), async (_request, output) => {
      for (let n = 0; n < 300; n++) await output.item({ n, text: 'x'.repeat(10_000) })
      return 'end'
    })
    const numbers: number[] = []
    const output = {
      progress() {},
      async item(value: unknown) {
        if (numbers.length % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 10))
        numbers.push((value as { n: number }).n)
      },
    }
    expect(await callControl(socket, { operation: 'x', args: {} }, output)).toBe('end')
    expect(numbers).toEqual(Array.from({ length: 300 }, (_, n) => n))
  })

  it('passes on what the caller throws at an item, and ends the operation', async () => {
    let ended = false
    const socket = await serve(temporaryFolder(), (_request, output, signal) => {
      void output.item('first')
      return new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          ended = true
          resolve(null)
        })
      })
    })
    const full = new Error('the disk is full')
    const output = {
      progress() {},
      item() {
        throw full
      },
    }
    await expect(callControl(socket, { operation: 'x', args: {} }, output)).rejects.toBe(full)
    await eventually('the operation ended', () => ended)
  })

  it('says so when the platform stops before it answered', async () => {
    const home = temporaryFolder()
    const server = await openControlServer(home, async (_request, output) => {
      await output.item('begun')
      return new Promise(() => {})
    })
    const begun = Promise.withResolvers<void>()
    const output = { progress() {}, item: () => begun.resolve() }
    const call = callControl(findControlSocket(home)!, { operation: 'x', args: {} }, output)
    call.catch(() => {})
    await begun.promise
    await server.close()
    await expect(call).rejects.toMatchObject({ code: 'shutting_down' })
  })

  it('takes no request beyond its limit', async () => {
    const socket = await serve(temporaryFolder(), async () => 'taken')
    const request = { operation: 'x', args: { text: 'x'.repeat(9 * 2 ** 20) } }
    await expect(callControl(socket, request, silent)).rejects.toMatchObject({
      code: expect.stringMatching(/shutting_down|payload_too_large/),
    })
  })

  it('tells a caller that reaches nobody, so that its operation can run elsewhere', async () => {
    const home = temporaryFolder()
    const call = callControl(join(home, 'gone.sock'), { operation: 'x', args: {} }, silent)
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
