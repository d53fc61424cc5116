/** Log messages of the thread, which are sent to the main thread because it has the logger. */

export type LogLevel = 'info' | 'warn' | 'error'
export type MessageLog = (level: LogLevel, message: string, fields?: Record<string, unknown>) => void
