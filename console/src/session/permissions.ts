/** The permissions of the caller, from the main API; every page and button asks here. */

import { createContext, use } from 'react'
import { api, type Data, take } from '../data/api.ts'
import { type Read, useRead } from '../data/query.ts'

export type Me = Data['Me']

/** A role may change meanwhile. */
const everyMs = 15_000

export function useReadMe(): Read<Me> {
  return useRead(['me'], () => take(api.GET('/api/v1/me')), everyMs)
}

export const MeContext = createContext<Me | null>(null)

export function useMe(): Me {
  const me = use(MeContext)
  if (!me) throw new Error('nobody is signed in')
  return me
}

/** True when the route, named as `METHOD /path`, may be called. */
export function useMay(...routes: readonly string[]): boolean {
  const { permissions } = useMe()
  return routes.every((route) => permissions.includes(route))
}
