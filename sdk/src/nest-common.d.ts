/** The part of NestJS that nest.ts uses. NestJS is not installed in this project. */
declare module '@nestjs/common' {
  export class HttpException extends Error {
    constructor(response: object, status: number);
  }
  export function UseGuards(...guards: object[]): MethodDecorator & ClassDecorator;
}
