/** The settings of the identity provider that every interface with ID tokens reads. */

import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'

export const tokenSettings = Type.Object({
  MAIN_API_URL: Type.Optional(
    Type.Refine(
      Type.String({
        minLength: 1,
        description:
          'public address of the main API, and the name of its local issuer in ID tokens; without it `http://127.0.0.1:<port>`; the same for all processes',
      }),
      isOrigin,
      () => 'must be an address such as https://api.example.org, without a path',
    ),
  ),
  CUSTOM_TOKEN_TTL_S: Type.Integer({
    minimum: 1,
    maximum: 86_400,
    default: 3_600,
    description: 'lifetime of a custom token in seconds; Firebase knows 3600 alone',
  }),
})

function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, pathname, search, hash, username } = new URL(text)
  const isBare = pathname === '/' && search === '' && hash === '' && username === ''
  return (protocol === 'http:' || protocol === 'https:') && isBare
}

/** What a token's issuer is named, and which names are of this platform. */
interface IssuerName {
  /** Throws where neither a setting nor a port says it. */
  name(): string
  isOurs(name: string): boolean
}

const onLoopback = /^http:\/\/127\.0\.0\.1:\d{1,5}$/

/**
 * Without the setting the issuer is named after its port, which other processes need not know: then every port of this machine is
 * accepted, and the signing keys alone say which installation a token is of.
 */
export function issuerName(url: string | undefined, port: () => number | undefined): IssuerName {
  const set = url === undefined ? undefined : new URL(url).origin
  return {
    name() {
      const taken = port()
      if (set !== undefined) return set
      if (taken !== undefined) return `http://127.0.0.1:${taken}`
      throw new AppError('shutting_down', 'The interface has no address yet; try again in a second.')
    },
    isOurs: (name) => (set === undefined ? onLoopback.test(name) : name === set),
  }
}
