/** The frame of all pages: the menu of what the caller may see, who is signed in, and the keys that go everywhere. */

import { Suspense, useEffect, useRef, useState } from 'react'
import { Link, Route, Switch, useLocation } from 'wouter'
import { useBrowserLocation } from 'wouter/use-browser-location'
import { useTheme } from './data/theme.ts'
import mark from './favicon.svg'
import { type PageEntry, pages } from './pages.ts'
import { ChangePassword } from './session/change-password.tsx'
import { type Me, useMe } from './session/permissions.ts'
import { signOut } from './session/session.ts'
import { Boundary } from './ui/boundary.tsx'
import { Dialog } from './ui/dialog.tsx'
import { Empty } from './ui/loaded.tsx'
import { Page } from './ui/page.tsx'

export function Shell() {
  const me = useMe()
  const [pathname] = useBrowserLocation()
  const allowed = pages.filter((page) => isAllowed(page, me))
  useKeys(allowed)
  return (
    <div className="shell">
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="top">
        <Link className="brand" href="/">
          <img src={mark} alt="" /> Flotilla
        </Link>
        <Who me={me} />
      </header>
      <Menu entries={allowed} />
      <main id="content" tabIndex={-1}>
        <Boundary at={pathname}>
          <Suspense fallback={<p className="dim loading">Loading…</p>}>
            <Switch>
              {pages.map((page) => (
                <Route key={page.path} path={page.path}>
                  {isAllowed(page, me) ? <page.component /> : <NotAllowed page={page} />}
                </Route>
              ))}
              <Route>
                <Page title="There is no such page">
                  <Empty title="The address leads nowhere">
                    <Link href="/">Go to the overview</Link>
                  </Empty>
                </Page>
              </Route>
            </Switch>
          </Suspense>
        </Boundary>
      </main>
    </div>
  )
}

function isAllowed({ needs }: PageEntry, { permissions }: Me): boolean {
  return needs.every((route) => permissions.includes(route))
}

function NotAllowed({ page }: { page: PageEntry }) {
  const { role } = useMe()
  return (
    <Page title={page.menu ?? 'Not for your role'}>
      <Empty title={`Your role, ${role}, may not see this page`}>
        <p>An admin can change your role under People.</p>
      </Empty>
    </Page>
  )
}

function Menu({ entries }: { entries: readonly PageEntry[] }) {
  const [location] = useLocation()
  return (
    <nav className="menu" aria-label="Pages">
      <ul>
        {entries.map(({ path, menu }) => {
          if (menu === undefined) return null
          const isHere = location === path || (path !== '/' && location.startsWith(`${path}/`))
          return (
            <li key={path}>
              <Link href={path} aria-current={isHere ? 'page' : undefined}>
                {menu}
              </Link>
            </li>
          )
        })}
      </ul>
    </nav>
  )
}

function Who({ me }: { me: Me }) {
  const [theme, toggleTheme] = useTheme()
  const [isChanging, setChanging] = useState(false)
  return (
    <div className="who">
      <span title={me.email}>
        {me.name} <span className="dim">· {me.role}</span>
      </span>
      <button type="button" onClick={toggleTheme}>
        {theme === 'dark' ? 'Light' : 'Dark'}
      </button>
      <button type="button" onClick={() => setChanging(true)}>
        Password
      </button>
      <button type="button" onClick={() => void signOut()}>
        Sign out
      </button>
      {isChanging && (
        <Dialog title="Change your password" onClose={() => setChanging(false)}>
          <ChangePassword onDone={() => setChanging(false)} onCancel={() => setChanging(false)} />
        </Dialog>
      )}
    </div>
  )
}

/** `g` and a letter goes to a page, `/` to the filter of the present one. */
function useKeys(entries: readonly PageEntry[]): void {
  const [, navigate] = useLocation()
  const isGoing = useRef(false)
  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      const { target, key, ctrlKey, metaKey, altKey } = event
      const typing = target instanceof HTMLElement && target.matches('input, textarea, select, dialog *')
      if (typing || ctrlKey || metaKey || altKey) return
      if (isGoing.current) {
        isGoing.current = false
        const entry = entries.find(({ letter }) => letter === key)
        if (entry) navigate(entry.path)
        return
      }
      if (key === 'g') isGoing.current = true
      if (key !== '/') return
      const filter = document.querySelector<HTMLInputElement>('main [data-filter]')
      if (!filter) return
      event.preventDefault()
      filter.focus()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [entries, navigate])
}
