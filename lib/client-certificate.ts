/** Certificates with which the platform shows engines who it is (mutual TLS), from PEM files that settings name. */

import { readFileSync } from 'node:fs'
import { AppError } from './errors.ts'

/** The texts of the PEM files. */
export interface ClientCertificate {
  cert: string
  key: string
}

interface NamedFiles {
  certificate: string | undefined
  key: string | undefined
  /** The names of the two settings. */
  names: readonly [string, string]
}

/** Null where none is named. Throws AppError `invalid_configuration`: one of two alone, or a file that cannot be read. */
export function readClientCertificate({ certificate, key, names }: NamedFiles): ClientCertificate | null {
  if (!certificate && !key) return null
  if (!certificate || !key) {
    throw new AppError('invalid_configuration', `${names.join(' and ')} belong together: set both or none.`)
  }
  return { cert: readPem(certificate, names[0]), key: readPem(key, names[1]) }
}

/** Throws AppError `invalid_configuration`, which names the setting and never the file's content. */
export function readPem(path: string, setting: string): string {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as { code?: string }
    throw new AppError('invalid_configuration', `${setting} names ${path}, which cannot be read (${code}).`)
  }
  if (text.includes('-----BEGIN ')) return text
  throw new AppError('invalid_configuration', `${setting} names ${path}, which is no PEM file.`)
}
