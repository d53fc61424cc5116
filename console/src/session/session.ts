/**
 * Who is signed in. The ID token is in memory alone; the half in localStorage and a cookie that scripts cannot read buy the
 * next one together.
 */

import { decodedPart } from '../data/links.ts'
import { Problem, problemOf } from '../data/problem.ts'
import type { components } from '../schema.d.ts'

type Bought = components['schemas']['BoughtToken']
export type Person = Bought['person']

export type SessionState =
  | { phase: 'starting' }
  /** `ended`: there was a session, and it is over. */
  | { phase: 'signed-out'; ended: boolean; problem?: Problem }
  | { phase: 'signed-in'; person: Person }

const halfKey = 'flotilla.session-half'
const path = '/api/v1/session'
/** A token that is about to run out is replaced before it is used. */
const spareMs = 30_000

let state: SessionState = { phase: 'starting' }
let held: { idToken: string; until: number } | undefined
let buying: Promise<string> | undefined
const listeners = new Set<() => void>()

export function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export function currentState(): SessionState {
  return state
}

function become(next: SessionState): void {
  state = next
  for (const listener of listeners) listener()
}

/** Goes on with the session of this browser, or with the code that a provider's sign-in put into the address. */
export async function startSession(): Promise<void> {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1]
  if (code !== undefined) {
    history.replaceState(null, '', location.pathname + location.search)
    return signIn({ code: decodedPart(code) }).catch((problem) =>
      become({ phase: 'signed-out', ended: false, problem }),
    )
  }
  if (localStorage.getItem(halfKey) === null) return become({ phase: 'signed-out', ended: false })
  await token().catch((problem) => {
    if (state.phase === 'starting') become({ phase: 'signed-out', ended: false, problem })
  })
}

export type Credentials = { email: string; password: string } | { code: string }

/** Rejects with a Problem. */
export async function signIn(credentials: Credentials): Promise<void> {
  const answer = await ask(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(credentials),
  })
  const { data } = (await answer.json()) as { data: Bought & { half: string } }
  localStorage.setItem(halfKey, data.half)
  keep(data)
}

export async function signOut(): Promise<void> {
  await ask(path, { method: 'DELETE' }).catch(() => undefined)
  forget(false)
}

/** A token that is good for the next request. Rejects with a Problem; after a 401 nobody is signed in. */
export async function token(): Promise<string> {
  if (held && held.until - spareMs > Date.now()) return held.idToken
  buying ??= buy().finally(() => {
    buying = undefined
  })
  return buying
}

/** After a 401: the token is not good any more, whatever its time says. */
export function dropToken(refused: string): void {
  if (held?.idToken === refused) held = undefined
}

/** Reads the person again, for example after a changed password. */
export async function renew(): Promise<void> {
  held = undefined
  await token()
}

async function buy(): Promise<string> {
  const half = localStorage.getItem(halfKey)
  if (half === null) {
    forget(state.phase === 'signed-in')
    throw new Problem(401, { title: 'Nobody is signed in', code: 'unauthorized' })
  }
  try {
    const answer = await ask(`${path}/token`, { method: 'POST', headers: { 'x-session-half': half } })
    return keep(((await answer.json()) as { data: Bought }).data)
  } catch (error) {
    if (error instanceof Problem && error.status === 401) forget(true)
    throw error
  }
}

function keep({ idToken, expiresIn, person }: Bought): string {
  held = { idToken, until: Date.now() + expiresIn * 1_000 }
  become({ phase: 'signed-in', person })
  return idToken
}

function forget(ended: boolean): void {
  held = undefined
  localStorage.removeItem(halfKey)
  become({ phase: 'signed-out', ended })
}

async function ask(address: string, init: RequestInit): Promise<Response> {
  const answer = await fetch(address, { ...init, cache: 'no-store', credentials: 'same-origin' })
  if (!answer.ok) throw await problemOf(answer)
  return answer
}
