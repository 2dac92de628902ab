/**
 * Thrown by a row that stops waiting. It does not say that the guarantee is broken: the machine may be too slow, or the
 * service stuck.
 */
export class NotFinished extends Error {}
