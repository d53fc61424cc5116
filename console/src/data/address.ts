/** Reads and sets the address: the id of the page, and its filters, so that a link shows what its sender saw. */

import { useCallback, useMemo } from 'react'
import { navigate, useBrowserLocation, useSearch } from 'wouter/use-browser-location'
import { idIn, searchOf } from './links.ts'

/** The id that the address names. The router's own parameters are decoded in part: `%2F` may be a slash or these three. */
export function usePathId(): string {
  const [pathname] = useBrowserLocation()
  return idIn(pathname)
}

/** All filters, and how to set them. */
export function useFilters(): [URLSearchParams, (filters: URLSearchParams) => void] {
  const search = useSearch()
  const filters = useMemo(() => new URLSearchParams(search), [search])
  return [filters, setFilters]
}

function setFilters(filters: URLSearchParams, options?: { replace: boolean }): void {
  navigate(`${location.pathname}${searchOf(filters)}`, options)
}

/** The value of one filter and how to set it; empty values leave the address. A change adds no step to the history. */
export function useParam(name: string, initial = ''): [string, (value: string) => void] {
  const [filters] = useFilters()
  const set = useCallback(
    (value: string) => {
      // As it is now: another filter may have changed since this was drawn.
      const next = new URLSearchParams(location.search)
      if (value === '' || value === initial) next.delete(name)
      else next.set(name, value)
      setFilters(next, { replace: true })
    },
    [name, initial],
  )
  return [filters.get(name) ?? initial, set]
}
