/** Light or dark: what the system prefers, until somebody chooses. */

import { useEffect, useState } from 'react'

type Theme = 'light' | 'dark'

const key = 'flotilla.theme'
const preference = window.matchMedia('(prefers-color-scheme: dark)')

function chosen(): Theme | null {
  const kept = localStorage.getItem(key)
  return kept === 'light' || kept === 'dark' ? kept : null
}

function present(): Theme {
  return chosen() ?? (preference.matches ? 'dark' : 'light')
}

/** Before the first paint. */
export function applyTheme(theme = present()): void {
  document.documentElement.dataset.theme = theme
}

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState(present)
  useEffect(() => {
    const follow = () => setTheme(present())
    preference.addEventListener('change', follow)
    return () => preference.removeEventListener('change', follow)
  }, [])
  useEffect(() => applyTheme(theme), [theme])
  return [
    theme,
    () => {
      localStorage.setItem(key, theme === 'dark' ? 'light' : 'dark')
      setTheme(present())
    },
  ]
}
