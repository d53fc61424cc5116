/** Preconditions of the operations for people: somebody who signs in, and somebody whom an admin changes. */

import { addPerson } from '#services/access/people/people.ts'
import { notedBy } from '#services/access/people/rows.ts'
import type { DescribedCall } from './described-call.ts'
import type { GatewayPlatform } from './gateway-platform.ts'
import { makePerson, signIn, tester } from './people.ts'

/** Answers 401 to a caller without a cookie, as generated clients are. */
export const withCookieAlone: readonly string[] = ['buyIdToken']

let made = 0

/** By operationId; to be asked again for each client. */
export async function peopleSpecials(
  platform: GatewayPlatform,
): Promise<Record<string, Partial<DescribedCall>>> {
  const { relational } = platform.platform.engines
  made += 1
  const named = (who: string) => `${who}-${made}@example.com`
  const person = await makePerson(platform, named('signs-in'))
  const { email, password } = person
  const { idToken, half } = await signIn({ baseUrl: platform.addresses.base_url as string }, person)
  const changing = async (who: string) =>
    (await addPerson(relational, { email: named(who) }, notedBy(tester, 'person.add'))).person
  return {
    signIn: { body: { email, password } },
    signInWithPassword: { body: { email, password, returnSecureToken: true } },
    buyIdToken: {
      parameters: { header: { 'x-session-half': half } },
      status: 401,
      code: 'unauthorized',
    },
    changeMyPassword: { token: idToken, body: { current: password, new: `${password}, replaced` } },
    addUser: { status: 201, body: { email: named('added'), role: 'viewer' } },
    setUserRole: { parameters: { path: { user: (await changing('role')).uid } } },
    removeUser: { parameters: { path: { user: (await changing('removed')).email } } },
  }
}

export const peopleRefusals: (Partial<DescribedCall> & {
  operationId: string
  status: number
  code: string
})[] = [
  {
    operationId: 'signIn',
    body: { email: 'nobody@example.com', password: 'not the password' },
    status: 401,
    code: 'unauthorized',
  },
  { operationId: 'signIn', body: { email: 'nobody@example.com' }, status: 422, code: 'validation_failed' },
  {
    operationId: 'signInWithPassword',
    body: { email: 'nobody@example.com', password: 'not the password' },
    status: 400,
    code: 'identity_refused',
  },
  { operationId: 'addUser', body: { email: 'no mail' }, status: 422, code: 'validation_failed' },
  {
    operationId: 'setUserRole',
    parameters: { path: { user: 'nobody@example.com' } },
    status: 404,
    code: 'not_found',
  },
]
