/** Signing in: what counts as a wrong try, and when a stored hash is replaced. */

import pino from 'pino'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { createPasswords } from '#services/access/people/passwords.ts'
import { addPerson, readPasswordOf } from '#services/access/people/people.ts'
import { openRefusedSignIns } from '#services/access/people/refused-sign-ins.ts'
import { notedBy } from '#services/access/people/rows.ts'
import { checkOwnPassword, createPasswordSignIn } from '#services/access/people/sign-in.ts'
import { createSignInLimits } from '#services/access/people/sign-in-limits.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'

let relational: Relational
const old = createPasswords({ ln: 4, r: 8, p: 1 })
const today = createPasswords({ ln: 5, r: 8, p: 1 })
beforeAll(async () => {
  relational = await openControlPlane()
  const note = notedBy({ actor: { kind: 'command_line', id: 'tester' } }, 'person.add')
  await addPerson(relational, { email: 'ana@x', password: await old.hash('her password', 'test') }, note)
  await addPerson(relational, { email: 'none@x' }, note)
})
afterAll(() => relational.close())

const given = { email: 'ana@x', password: 'her password', address: '192.0.2.1', requestId: 'r' }

function open(check: Parameters<typeof createPasswordSignIn>[0]['check']) {
  const refusals = openRefusedSignIns({ relational, log: pino({ level: 'silent' }) })
  onTestFinished(() => refusals.close())
  return createPasswordSignIn({ limits: createSignInLimits(), refusals, check })
}

test('a right password signs in, and its hash gets the cost of today', async () => {
  const signIn = open(checkOwnPassword(relational, today))
  expect((await signIn({ ...given, email: 'ANA@x' })).person.email).toBe('ana@x')
  const { password, person } = (await readPasswordOf(relational, 'ana@x'))!
  expect([password?.startsWith('$scrypt$ln=5,'), person.version]).toEqual([true, 1])
  expect((await signIn(given)).person.email).toBe('ana@x')
  expect((await readPasswordOf(relational, 'ana@x'))!.password).toBe(password)
})

test('a wrong password, an unknown e-mail and a person without a password are refused alike', async () => {
  const signIn = open(checkOwnPassword(relational, today))
  const refused = await Promise.all(
    // Four of one address are checked at once.
    ['ana@x', 'nobody@x', 'none@x', '', '\0'].map((email, n) =>
      signIn({ ...given, email, address: `198.51.100.${n}`, password: 'wrong' }).catch((error: AppError) => [
        error.code,
        error.message,
      ]),
    ),
  )
  for (const one of refused) expect(one).toEqual(refused[0])
  expect(refused[0]![0 as never]).toBe('unauthorized')
})

test('who could not be checked has tried nothing', async () => {
  const signIn = open(async () => {
    throw new AppError('identity_unavailable', 'away')
  })
  for (let n = 0; n < 50; n++) {
    await expect(signIn(given)).rejects.toMatchObject({ code: 'identity_unavailable' })
  }
})

test('who was refused has tried, and is soon asked to wait', async () => {
  let checks = 0
  const signIn = open(async () => {
    checks += 1
    return { refused: new AppError('unauthorized', 'no'), uid: null }
  })
  const codes: string[] = []
  for (let n = 0; n < 20; n++) await signIn(given).catch((error: AppError) => codes.push(error.code))
  expect(checks).toBeLessThanOrEqual(6)
  expect(codes.slice(0, 5)).toEqual(Array(5).fill('unauthorized'))
  expect(codes.at(-1)).toBe('rate_limited')
})
