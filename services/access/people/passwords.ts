/**
 * Passwords of people: hashed with scrypt outside of the event loop, a few at a time, because each takes 128 MiB and a
 * good part of a second.
 */

import { randomBytes, randomInt, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { budgets } from '#lib/budgets.ts'
import { AppError } from '#lib/errors.ts'
import { createTurns } from '#lib/turns.ts'

interface ScryptCost {
  /** Exponent of the cost: N = 2^ln. */
  ln: number
  r: number
  p: number
}

export const passwordLengthMin = 12
export const passwordLengthMax = 256

/** What OWASP recommends for scrypt; a hash of another cost is replaced at the next sign-in. */
const todaysCost: ScryptCost = { ln: 17, r: 8, p: 1 }
const saltBytes = 16
const hashBytes = 32
const turns = { atOnce: budgets.passwords.atOnce, perCaller: 1, waitingMax: 32 }
const patienceMs = 10_000
/** Checks of one caller that run or wait: no caller fills the queue. */
const perCallerMax = 4
/** Above this a stored string is not ours. */
const costMax: ScryptCost = { ln: 20, r: 16, p: 4 }

export type Passwords = ReturnType<typeof createPasswords>

/** `runs` derives the 32 bytes of a hash. */
export function createPasswords(cost: ScryptCost = todaysCost, runs = runScrypt) {
  const queue = createTurns(turns)
  /** Nobody's password: what unknown accounts are compared with. */
  const nobodys = { cost, salt: randomBytes(saltBytes), hash: randomBytes(hashBytes) }

  /** Checks under way, by their callers. */
  const pending = new Map<string, number>()

  async function derive(password: string, salt: Buffer, of: ScryptCost, caller: string): Promise<Buffer> {
    const before = pending.get(caller) ?? 0
    if (before >= perCallerMax) {
      throw new AppError('rate_limited', 'Too many passwords of this address are being checked.', {
        retryAfter: 1,
      })
    }
    pending.set(caller, before + 1)
    try {
      return await queue.take(caller, patienceMs, overloaded, () => runs(password, salt, of))
    } finally {
      const left = pending.get(caller)! - 1
      if (left === 0) pending.delete(caller)
      else pending.set(caller, left)
    }
  }
  /** A PHC string. `caller` is whose turn it takes: callers get theirs in a circle. Throws AppError `overloaded`, `rate_limited`. */
  async function hash(password: string, caller: string): Promise<string> {
    const salt = randomBytes(saltBytes)
    return phcOf(cost, salt, await derive(password, salt, cost, caller))
  }
  return {
    hash,
    /**
     * Whether the password is that of `stored`. It takes as long where nothing is stored. `upgraded` is a hash of today's
     * cost where the stored one has another. Throws as `hash`.
     */
    async verify(
      password: string,
      stored: string | null,
      caller: string,
    ): Promise<{ matches: boolean; upgraded?: string }> {
      const known = stored === null ? null : parsePhc(stored)
      const against = known ?? nobodys
      const derived = await derive(password, against.salt, against.cost, caller)
      const matches = timingSafeEqual(derived, against.hash) && known !== null
      if (!matches || isSame(against.cost, cost)) return { matches }
      return { matches, upgraded: await hash(password, caller) }
    },
  }
}

const scryptAsync = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt)

function runScrypt(password: string, salt: Buffer, { ln, r, p }: ScryptCost): Promise<Buffer> {
  const N = 2 ** ln
  return scryptAsync(password.normalize('NFKC'), salt, hashBytes, { N, r, p, maxmem: 256 * N * r })
}

/** Throws AppError `validation_failed`; `path` is the field that it is in. */
export function checkNewPassword(password: string, email: string, path: string): void {
  const fault = faultOf(password, email)
  if (fault === null) return
  throw new AppError('validation_failed', `The password ${fault}.`, { errors: [{ path, message: fault }] })
}

function faultOf(password: string, email: string): string | null {
  const length = [...password].length
  if (length < passwordLengthMin || length > passwordLengthMax) {
    return `must have ${passwordLengthMin} to ${passwordLengthMax} characters`
  }
  if (!password.isWellFormed()) return 'must be valid Unicode'
  if (new Set(password).size < 5) return 'must have at least 5 different characters'
  if (password.toLowerCase().includes(email.toLowerCase())) return 'must not contain the e-mail address'
  return null
}

/** A password that is given once: nearly 119 random bits, in groups of letters that cannot be mistaken for others. */
export function newOneTimePassword(): string {
  const letters = 'abcdefghjkmnpqrstuvwxyz23456789'
  const group = () => Array.from({ length: 6 }, () => letters[randomInt(letters.length)]).join('')
  return [group(), group(), group(), group()].join('-')
}

/** `$scrypt$ln=17,r=8,p=1$<salt>$<hash>`, both in base64 without padding. */
function phcOf({ ln, r, p }: ScryptCost, salt: Buffer, derived: Buffer): string {
  return `$scrypt$ln=${ln},r=${r},p=${p}$${base64(salt)}$${base64(derived)}`
}

const phcPattern =
  /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{22,86})\$([A-Za-z0-9+/]{43})$/

/** Null for a text that is not a hash of ours. */
function parsePhc(text: string): { cost: ScryptCost; salt: Buffer; hash: Buffer } | null {
  const found = phcPattern.exec(text)
  if (!found) return null
  const [ln, r, p] = found.slice(1, 4).map(Number) as [number, number, number]
  if (ln < 1 || r < 1 || p < 1 || ln > costMax.ln || r > costMax.r || p > costMax.p) return null
  return {
    cost: { ln, r, p },
    salt: Buffer.from(found[4]!, 'base64'),
    hash: Buffer.from(found[5]!, 'base64'),
  }
}

function isSame(one: ScryptCost, other: ScryptCost): boolean {
  return one.ln === other.ln && one.r === other.r && one.p === other.p
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '')
}

function overloaded(): AppError {
  return new AppError('overloaded', 'Too many passwords are being checked; try again in a second.', {
    retryAfter: 1,
  })
}
