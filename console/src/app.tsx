/** The whole of the console: sign-in, or the frame with the page that the address names. */

import { QueryClientProvider } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { Router } from 'wouter'
import { base } from './data/links.ts'
import { queries } from './data/query.ts'
import { FirstPassword } from './session/change-password.tsx'
import { MeContext, useReadMe } from './session/permissions.ts'
import { currentState, type SessionState, subscribe } from './session/session.ts'
import { SignIn } from './session/sign-in.tsx'
import { Shell } from './shell.tsx'
import { Boundary } from './ui/boundary.tsx'
import { Loaded } from './ui/loaded.tsx'

export function App() {
  const state = useSyncExternalStore(subscribe, currentState)
  const uid = state.phase === 'signed-in' ? state.person.uid : null
  // Data of one person must not be shown to the next.
  useEffect(() => {
    if (uid === null) queries.clear()
  }, [uid])
  return (
    <QueryClientProvider client={queries}>
      <Router base={base}>
        <Boundary at={state.phase}>
          <Phase state={state} />
        </Boundary>
      </Router>
    </QueryClientProvider>
  )
}

function Phase({ state }: { state: SessionState }) {
  if (state.phase === 'starting') return null
  if (state.phase === 'signed-out') return <SignIn ended={state.ended} problem={state.problem} />
  if (state.person.mustChangePassword) return <FirstPassword />
  return <SignedIn />
}

function SignedIn() {
  const me = useReadMe()
  return (
    <Loaded of={me}>
      {(data) => (
        <MeContext value={data}>
          <Shell />
        </MeContext>
      )}
    </Loaded>
  )
}
