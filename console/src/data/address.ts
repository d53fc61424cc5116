/** Filters live in the address, so that a link shows what its sender saw. */

import { useCallback } from 'react'
import { useSearchParams } from 'wouter'

/** The value of one parameter and how to set it; what is empty leaves the address. Changing it adds no step to the history. */
export function useParam(name: string, initial = ''): [string, (value: string) => void] {
  const [params, setParams] = useSearchParams()
  const set = useCallback(
    (value: string) =>
      setParams(
        (before) => {
          const next = new URLSearchParams(before)
          if (value === '' || value === initial) next.delete(name)
          else next.set(name, value)
          return next
        },
        { replace: true },
      ),
    [name, initial, setParams],
  )
  return [params.get(name) ?? initial, set]
}
