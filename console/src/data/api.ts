/** Calls of the main API, typed by its description, with the token of the person who is signed in. */

import createClient, { defaultPathSerializer } from 'openapi-fetch'
import type { components, paths } from '../schema.d.ts'
import { dropToken, token } from '../session/session.ts'
import { asProblem, Problem, problemOf } from './problem.ts'

/** The data of answers, by the names that the description gives them. */
export type Data = components['schemas']

export const api = createClient<paths>({
  baseUrl: location.origin,
  fetch: withToken,
  pathSerializer(path, values) {
    // Browsers fold these, encoded or not: another route would be called.
    const folded = Object.values(values).find((value) => value === '.' || value === '..')
    if (folded === undefined) return defaultPathSerializer(path, values)
    throw new Problem(404, {
      title: 'Not found',
      detail: `Nothing can have the id ${folded}.`,
      code: 'not_found',
    })
  },
})

/** Asks with a token; once more with a new one when it is refused. */
export async function withToken(request: Request): Promise<Response> {
  const again = request.clone()
  const idToken = await token()
  const answer = await fetch(bearing(request, idToken))
  if (answer.status !== 401) return answer
  dropToken(idToken)
  return fetch(bearing(again, await token()))
}

function bearing(request: Request, idToken: string): Request {
  request.headers.set('authorization', `Bearer ${idToken}`)
  return request
}

interface Called<T> {
  data?: { data: T }
  error?: unknown
  response: Response
}

/** The data of a call's answer. Rejects with a Problem. */
export async function take<T>(calling: Promise<Called<T>>): Promise<T> {
  const { data, error, response } = await calling.catch((thrown) => {
    throw asProblem(thrown)
  })
  if (response.ok && data) return data.data
  // openapi-fetch has read the body already.
  throw typeof error === 'object' && error !== null
    ? new Problem(response.status, error)
    : await problemOf(response)
}

export interface Paged<T> {
  rows: T[]
  /** The cursor of the next page. */
  next: string | null
}

/** As `take`, for lists whose next page is named in `Link`. */
export async function takePage<T>(calling: Promise<Called<T[]>>): Promise<Paged<T>> {
  const rows = await take(calling)
  const link = (await calling).response.headers.get('link') ?? ''
  const address = /<([^>]+)>; *rel="next"/.exec(link)?.[1]
  return { rows, next: address ? new URL(address, location.origin).searchParams.get('cursor') : null }
}

/** Up to `most` rows. A page may end before its limit: only `next` says whether there are more. */
export async function takeRows<T>(
  most: number,
  page: (from: { cursor?: string }) => Promise<Paged<T>>,
): Promise<T[]> {
  const taken: T[] = []
  for (let next: string | null | undefined; next !== null && taken.length < most; ) {
    const read = await page(next === undefined ? {} : { cursor: next })
    taken.push(...read.rows)
    next = read.next
  }
  return taken.slice(0, most)
}
