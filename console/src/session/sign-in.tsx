/** The page for signing in. */

import { useEffect, useState } from 'react'
import { asProblem, type Problem, problemOf } from '../data/problem.ts'
import mark from '../favicon.svg'
import type { components } from '../schema.d.ts'
import { Form, TextField, type Values } from '../ui/form.tsx'
import { Failed } from '../ui/loaded.tsx'
import { signIn } from './session.ts'

type WaysIn = components['schemas']['WaysIn']

export function SignIn({ ended, problem: before }: { ended: boolean; problem?: Problem | undefined }) {
  const { ways, problem: unknown } = useWaysIn()
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem | null>(before ?? null)
  useEffect(() => {
    document.title = 'Sign in · Flotilla'
  }, [])
  async function send({ email = '', password = '' }: Values) {
    setBusy(true)
    setProblem(null)
    try {
      await signIn({ email, password })
    } catch (error) {
      setProblem(asProblem(error))
      setBusy(false)
    }
  }
  return (
    <main className="sign-in">
      <h1>
        <img src={mark} alt="" /> Flotilla
      </h1>
      {ended && (
        <p className="notice" role="status">
          Your session has ended. Sign in again to go on here.
        </p>
      )}
      {unknown && <Failed problem={unknown} />}
      {ways?.oidc && (
        <p>
          <a className="button" href="/api/v1/session/oidc/start">
            Sign in with your provider
          </a>
        </p>
      )}
      {ways?.password ? (
        <Form submit="Sign in" busy={busy} problem={problem} onSubmit={(values) => void send(values)}>
          <TextField label="E-mail" name="email" required autoComplete="username" autoFocus />
          <TextField
            label="Password"
            name="password"
            type="password"
            required
            autoComplete="current-password"
          />
        </Form>
      ) : (
        problem && <Failed problem={problem} />
      )}
    </main>
  )
}

function useWaysIn(): { ways: WaysIn | null; problem: Problem | null } {
  const [ways, setWays] = useState<WaysIn | null>(null)
  const [problem, setProblem] = useState<Problem | null>(null)
  useEffect(() => {
    const { signal, abort } = abortable()
    async function read() {
      const answer = await fetch('/api/v1/session', { signal })
      if (!answer.ok) throw await problemOf(answer)
      setWays(((await answer.json()) as { data: WaysIn }).data)
    }
    read().catch((error) => {
      if (!signal.aborted) setProblem(asProblem(error))
    })
    return abort
  }, [])
  return { ways, problem }
}

function abortable() {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}
